#include "rendezvous/job/effect_list.h"

#include "absl/strings/str_cat.h"

namespace mtrun::rendezvous {

void EffectList::Send(const std::string& node_id, ServiceEvent event) {
  effects_.push_back(rendezvous::Send{node_id, std::move(event)});
}

void EffectList::Close(const std::string& node_id) { effects_.push_back(CloseSession{node_id}); }

void EffectList::Refuse(const Cause& cause) {
  Log(absl::StrCat("refuses ", cause.node_id, ": ", WhyRefused({cause})), cause);
  Send(cause.node_id, Refused{cause});
  Close(cause.node_id);
}

void EffectList::Log(std::string text, std::optional<Cause> gone) {
  effects_.push_back(LogLine{std::move(text), false, std::move(gone)});
}

void EffectList::LogGone(const Cause& cause, bool ends) {
  effects_.push_back(LogLine{Describe(cause), ends, cause});
}

void EffectList::LogDetail(std::string text, std::optional<Cause> gone) {
  effects_.push_back(LogLine{std::move(text), true, std::move(gone)});
}

void EffectList::Reply(const Generation& generation, const std::vector<KeyValueStore::Answer>& answers) {
  for (const KeyValueStore::Answer& answer : answers)
    Send(answer.node_id, StoreReply{generation, answer.id, answer.values, answer.error});
}

void EffectList::ReplyOver(const std::string& node_id, const AgentEvent& event) {
  const auto* read = std::get_if<StoreRead>(&event);
  if (read == nullptr) return;
  const std::string error = absl::StrCat(Describe(read->generation), " is over");
  Send(node_id, StoreReply{read->generation, read->id, {}, error});
}

std::vector<Effect> EffectList::Take() { return std::exchange(effects_, {}); }

}  // namespace mtrun::rendezvous
