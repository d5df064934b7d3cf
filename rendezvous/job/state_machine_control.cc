// Requests to a job from outside.
#include "rendezvous/job/state_machine.h"

namespace mtrun::rendezvous {
void JobMachine::OnControl(const ControlAsked& asked, TimePoint now) {
  const ControlCall& call = asked.call;
  if (outcome_) return;
  const RosterNode* node = roster_.Find(asked.node_id);
  const auto* evict = std::get_if<EvictCall>(&call.what);
  const auto* stop = std::get_if<StopCall>(&call.what);
  const bool drain = std::holds_alternative<DrainCall>(call.what);
  const bool member =
      generation_.FindLast(asked.node_id) != nullptr || quorum_.predecessors().Find(asked.node_id) != nullptr;
  const bool here = node != nullptr && node->connected && !suspects_.Suspected(asked.node_id);
  if (evict != nullptr && (!member || here)) return;
  if (drain && (node == nullptr || node->expected)) return;
  const NodeLost evicted{.how = NodeLost::How::kEvicted, .by = call.by};
  effects_.LogDetail(
      rendezvous::Describe(call),
      evict != nullptr ? std::optional(Cause{asked.node_id, evict->node, evicted}) : std::nullopt);
  control_.Tell(call, drain ? asked.node_id : "", evict != nullptr ? asked.node_id : "", roster_, &effects_);
  if (evict != nullptr) {
    generation_.RuleOut();
    departures_.OnEvicted(asked.node_id);
    spares_.OnGone(asked.node_id);
    control_.OnEvicted(asked.node_id, call, now);
    if (node != nullptr) Lose(asked.node_id, evicted);
  } else if (stop != nullptr && !stop->checkpoint) {
    End(StoppedOutcome(call), now);
  }
}

}  // namespace mtrun::rendezvous
