#include "rendezvous/job/root_cause_window.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/wire/until.h"

namespace mtrun::rendezvous {

RootCauseWindow::RootCauseWindow(const std::string& node_id, WorkerFailure failure, std::string why,
                                 TimePoint now)
    : trigger_(failure),
      cause_(std::move(failure)),
      why_(std::move(why)),
      due_(now + kLength),
      heard_({node_id}) {}

void RootCauseWindow::AddReport(const std::string& node_id, const WorkerFailure& failure) {
  heard_.insert(node_id);
  const bool known = failure.failed_at_ns > 0 && cause_.failed_at_ns > 0;
  if (known && failure.failed_at_ns < cause_.failed_at_ns) cause_ = failure;
}

bool RootCauseWindow::Complete(const GenerationRecord& generation, const Roster& roster) const {
  if (!generation.known()) return true;
  const auto& members = generation.last()->members;
  return std::all_of(members.begin(), members.end(), [&](const Member& member) {
    const RosterNode* node = roster.Find(member.node_id);
    const bool may_speak =
        node != nullptr && node->connected && node->confirmed && !node->offered && !node->starting;
    return !may_speak || heard_.contains(member.node_id) || generation.HasFinished(member.node_id);
  });
}

JobOutcome RootCauseWindow::Outcome() const {
  const std::string after =
      cause_ == trigger_ ? "" : absl::StrCat("after it ", rendezvous::Describe(trigger_), "; ");
  return {false, ExitCodeOf(cause_), after + why_, cause_};
}

std::string RootCauseWindow::Describe(TimePoint now) const {
  return absl::StrCat("root cause due ", Until(due_, now), ": ", rendezvous::Describe(cause_), ", heard {",
                      absl::StrJoin(heard_, " "), "}");
}

}  // namespace mtrun::rendezvous
