#include "launcher/channel/store_forwarder.h"

#include "absl/strings/str_cat.h"

namespace mtrun::launcher {
namespace {

/// Returns the generation that a request names, {0, 0} for the current one; nullopt for other messages.
std::optional<rendezvous::Generation> GenerationOf(const channel::WorkerMessage& message) {
  if (const auto* set = std::get_if<channel::StoreSet>(&message)) return set->generation;
  if (const auto* get = std::get_if<channel::StoreGet>(&message)) return get->generation;
  if (const auto* wait = std::get_if<channel::StoreWait>(&message)) return wait->generation;
  return std::nullopt;
}

}  // namespace

bool StoreForwarder::IsRequest(const channel::WorkerMessage& message) {
  return GenerationOf(message).has_value();
}

bool StoreForwarder::Fits(const channel::WorkerMessage& request, const rendezvous::Generation& current) {
  const rendezvous::Generation named = GenerationOf(request).value_or(rendezvous::Generation{});
  return current.number != 0 && (named.number == 0 || named == current);
}

std::optional<channel::StoreValues> StoreForwarder::Refuse(const channel::WorkerMessage& request) {
  const rendezvous::Generation named = GenerationOf(request).value_or(rendezvous::Generation{});
  const std::string why = named.number == 0
                              ? std::string("no generation runs now")
                              : absl::StrCat("generation ", named.number, " is not the one that runs now");
  if (const auto* get = std::get_if<channel::StoreGet>(&request))
    return channel::StoreValues{get->id, {}, why};
  if (const auto* wait = std::get_if<channel::StoreWait>(&request))
    return channel::StoreValues{wait->id, {}, why};
  return std::nullopt;
}

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
