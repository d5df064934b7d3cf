// Carries the workers' key-value requests to the service and the answers back: who asked, with which id.
// Pure; not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/worker_channel.h"
#include "rendezvous/types.h"

namespace mtrun::launcher {

class StoreForwarder {
 public:
  /// StoreSet, StoreGet and StoreWait.
  static bool IsRequest(const channel::WorkerMessage& message);
  /// Whether a request belongs to the generation that runs here ({0, 0}: none does).
  static bool Fits(const channel::WorkerMessage& request, const rendezvous::Generation& current);
  /// The answer to a request that does not; nothing for a StoreSet, which nobody waits for.
  static std::optional<channel::StoreValues> Refuse(const channel::WorkerMessage& request);

  /// What to send for a worker's StoreSet, StoreGet or StoreWait; nothing for other messages.
  std::optional<rendezvous::AgentEvent> Ask(int64_t connection, const channel::WorkerMessage& message,
                                            const rendezvous::Generation& generation);
  /// The connection that waits for this reply and its answer; nothing when nobody does (any more).
  std::optional<std::pair<int64_t, channel::StoreValues>> Answer(const rendezvous::StoreReply& reply);
  /// Questions without an answer, to be asked again after a reconnect.
  std::vector<rendezvous::AgentEvent> Open() const;
  /// The generation is over.
  void Clear() { open_.clear(); }

 private:
  struct Question {
    int64_t connection = 0, id = 0;
    rendezvous::StoreRead read;
  };
  int64_t next_id_ = 1;
  std::map<int64_t, Question> open_;
};

}  // namespace mtrun::launcher
