#include "rendezvous/control_news.h"

#include <csignal>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mtrun::rendezvous {

JobOutcome StoppedOutcome(const ControlCall& call) {
  JobOutcome outcome = FailedOutcome(absl::StrCat("stopped by ", Describe(call.by)), 128 + SIGTERM);
  outcome.stopped = true;
  return outcome;
}

void ControlNews::Tell(const ControlCall& call, const std::string& leaves, const std::string& except,
                       const Roster& roster, EffectList* effects) {
  const bool all = call.call == ControlCall::kStop && call.checkpoint;
  if (all) all_leave_ = call, all_leave_->leave = true, told_.clear();
  for (const auto& [node_id, node] : roster.nodes()) {
    if (node.expected || node_id == except) continue;
    ControlCall news = call;
    news.leave = all || node_id == leaves;
    if (all) told_.insert(node_id);
    effects->Send(node_id, news);
  }
}

void ControlNews::OnOpened(const std::string& node_id, EffectList* effects) {
  if (all_leave_ && told_.insert(node_id).second) effects->Send(node_id, *all_leave_);
}

JobOutcome ControlNews::OutcomeOfLast(const std::string& what) const {
  if (all_leave_) return StoppedOutcome(*all_leave_);
  return FailedOutcome(absl::StrCat("every node has left, the last one: ", what));
}

std::string ControlNews::Describe() const {
  return all_leave_ ? absl::StrCat("all are to leave; told: ", absl::StrJoin(told_, ", ")) : "";
}

}  // namespace mtrun::rendezvous
