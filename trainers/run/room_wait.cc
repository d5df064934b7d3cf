#include "trainers/run/room_wait.h"

#include <thread>

#include "base/log.h"

namespace mtrun::trainers {

bool RoomWait::operator()(const absl::Status& full) {
  if (give_up_()) return false;
  const TimePoint now = MonotonicNow();
  const bool waits_on = now - tried_ < 10 * kPause;
  if (!waits_on || now - said_ >= kSayAgain) {
    log::Warning(absl::IsResourceExhausted(full)
                     ? "the run waits for room on the disk, nothing is lost: "
                     : "the run waits until the disk can be written again, nothing is lost: ",
                 std::string(full.message()));
    said_ = now;
  }
  tried_ = now;
  still_here_();
  std::this_thread::sleep_for(kPause);
  return true;
}

}  // namespace mtrun::trainers
