#include "trainers/run/leaving.h"

#include <utility>

#include "base/posix.h"
#include "trainers/collectives/cpu_group.h"
#include "trainers/run/room_wait.h"

namespace mtrun::trainers {

StuckStep::StuckStep(const Membership& membership, Duration grace) {
  const collectives::ProcessGroup group = membership.group();
  if (!membership.elastic() || !group || grace == Duration::zero()) return;
  const auto stuck = [this, &membership, grace] {
    const std::optional<TimePoint> told = membership.told_to_go_at();
    return runs_ && told && MonotonicNow() - *told >= grace / 2;
  };
  const auto leave = [group] {
    collectives::AbortGroup(group, "told to go, and the step has not ended in half of the grace");
  };
  watch_.emplace(stuck, leave, Duration::zero());
}

absl::Status StuckStep::Run(const std::function<absl::Status()>& step) {
  runs_ = true;
  absl::Status done = step();
  runs_ = false;
  return done;
}

bool WaitsForDisk(std::optional<TimePoint> told, Duration grace, TimePoint now) {
  return told && now - *told < grace * 3 / 4;
}

bool IsRefusedByDisk(const absl::Status& saved) {
  return MayTakeBytesLater(saved) || absl::IsUnavailable(saved);
}

absl::Status SaveBeforeLeaving(const Membership& membership, Duration grace, std::function<void()> still_here,
                               const std::function<absl::Status()>& save) {
  const auto give_up = [&membership, grace] {
    return membership.others_continue() || membership.work_is_done() || membership.next_is_here() ||
           !WaitsForDisk(membership.told_to_go_at(), grace, MonotonicNow());
  };
  RoomWait wait(give_up, std::move(still_here));
  while (true) {
    const absl::Status saved = save();
    if (!IsRefusedByDisk(saved)) return saved;
    if (wait(saved)) continue;
    if (membership.others_continue()) return absl::OkStatus();
    return membership.next_is_here() ? absl::AbortedError(saved.message()) : saved;
  }
}

}  // namespace mtrun::trainers
