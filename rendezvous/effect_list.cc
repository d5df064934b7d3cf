#include "rendezvous/effect_list.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace mtrun::rendezvous {

void EffectList::Send(const std::string& node_id, ServiceEvent event) {
  effects_.push_back(rendezvous::Send{node_id, std::move(event)});
}

void EffectList::Close(const std::string& node_id) { effects_.push_back(CloseSession{node_id}); }

void EffectList::Refuse(const std::string& node_id, const std::string& why) {
  Log(absl::StrCat("refuses ", node_id, ": ", why));
  Send(node_id, Refused{why});
  Close(node_id);
}

void EffectList::Log(std::string text) { effects_.push_back(LogLine{std::move(text), false}); }

void EffectList::LogTold(std::string text) { effects_.push_back(LogLine{std::move(text), true}); }

void EffectList::Reply(const Generation& generation, const std::vector<KeyValueStore::Answer>& answers) {
  for (const KeyValueStore::Answer& answer : answers)
    Send(answer.node_id, StoreReply{generation, answer.id, answer.values, answer.error});
}

void EffectList::ReplyOver(const std::string& node_id, const AgentEvent& event) {
  const auto* read = std::get_if<StoreRead>(&event);
  if (read == nullptr) return;
  StoreReply reply;
  reply.generation = read->generation;
  reply.id = read->id;
  reply.error = absl::StrCat(Describe(read->generation), " is over");
  Send(node_id, std::move(reply));
}

std::vector<Effect> EffectList::Take() { return std::exchange(effects_, {}); }

}  // namespace mtrun::rendezvous
