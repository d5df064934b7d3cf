#include "launcher/store_forwarder.h"

namespace mtrun::launcher {

std::optional<rendezvous::AgentEvent> StoreForwarder::Ask(int64_t connection,
                                                          const channel::WorkerMessage& message,
                                                          const rendezvous::Generation& generation) {
  if (const auto* set = std::get_if<channel::StoreSet>(&message)) {
    return rendezvous::StoreSet{generation, set->key, set->value};
  }
  const auto read = [&](int64_t id, const std::vector<std::string>& keys, bool wait) {
    const rendezvous::StoreRead question{generation, next_id_++, keys, wait};
    open_[question.id] = {connection, id, question};
    return rendezvous::AgentEvent(question);
  };
  if (const auto* get = std::get_if<channel::StoreGet>(&message)) return read(get->id, get->keys, false);
  if (const auto* wait = std::get_if<channel::StoreWait>(&message)) return read(wait->id, wait->keys, true);
  return std::nullopt;
}

std::optional<std::pair<int64_t, channel::StoreValues>> StoreForwarder::Answer(
    const rendezvous::StoreReply& reply) {
  const auto found = open_.find(reply.id);
  if (found == open_.end()) return std::nullopt;
  const Question question = found->second;
  open_.erase(found);
  return std::pair(question.connection, channel::StoreValues{question.id, reply.values, reply.error});
}

std::vector<rendezvous::AgentEvent> StoreForwarder::Open() const {
  std::vector<rendezvous::AgentEvent> events;
  for (const auto& [id, question] : open_) events.push_back(question.read);
  return events;
}

}  // namespace mtrun::launcher
