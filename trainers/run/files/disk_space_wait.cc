#include "trainers/run/files/disk_space_wait.h"

#include <unistd.h>

#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/file_limit.h"
#include "base/log.h"

namespace mtrun::trainers {
namespace {

std::string WhyPaused(const absl::Status& full) {
  if (IsAtSizeLimit(full))
    return absl::StrCat("the run is paused until files may be larger (prlimit --fsize=unlimited --pid ",
                        getpid(), "), nothing is lost: ");
  return absl::IsResourceExhausted(full)
             ? "the run is paused until there is free disk space, nothing is lost: "
             : "the run is paused until the disk can be written again, nothing is lost: ";
}

}  // namespace

bool DiskSpaceWait::operator()(const absl::Status& full) {
  if (give_up_()) return false;
  const TimePoint now = MonotonicNow();
  const bool waits_on = now - tried_ < 10 * kPause;
  if (!waits_on || now - said_ >= kSayAgain) {
    log::Warning(WhyPaused(full), std::string(full.message()));
    said_ = now;
  }
  tried_ = now;
  still_here_();
  std::this_thread::sleep_for(kPause);
  return true;
}

}  // namespace mtrun::trainers
