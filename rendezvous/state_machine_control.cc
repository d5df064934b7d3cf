// What is asked of a job from outside.
#include "absl/strings/str_cat.h"
#include "rendezvous/reasons.h"
#include "rendezvous/state_machine.h"

namespace mtrun::rendezvous {
void JobMachine::OnControl(const ControlAsked& asked, TimePoint now) {
  const ControlCall& call = asked.call;
  if (outcome_) return;
  const RosterNode* node = roster_.Find(asked.node_id);
  const bool evict = call.call == ControlCall::kEvict, drain = call.call == ControlCall::kDrain;
  const bool member =
      generation_.FindLast(asked.node_id) != nullptr || quorum_.FindEarlier(asked.node_id) != nullptr;
  if (evict && (!member || (node != nullptr && node->connected))) return;
  if (drain && (node == nullptr || node->expected)) return;
  effects_.LogTold(rendezvous::Describe(call));
  control_.Tell(call, drain ? asked.node_id : "", evict ? asked.node_id : "", roster_, &effects_);
  if (evict) {
    generation_.RuleOut();
    departures_.OnEvicted(asked.node_id);
    control_.OnEvicted(asked.node_id, call, now);
    if (node != nullptr) Lose(asked.node_id, absl::StrCat(kEvictedBy, rendezvous::Describe(call.by)));
  } else if (call.call == ControlCall::kStop && !call.checkpoint) {
    End(StoppedOutcome(call), now);
  }
}

}  // namespace mtrun::rendezvous
