// Forwards the workers' key-value requests to the service and returns the answers: tracks the connection and
// id of each request. Pure; not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/worker_channel.h"
#include "rendezvous/wire/types.h"

namespace mtrun::launcher {

class StoreForwarder {
 public:
  /// Returns whether it is a StoreSet, StoreGet or StoreWait.
  static bool IsRequest(const channel::WorkerMessage& message);
  /// Returns whether a request belongs to the generation that runs here ({0, 0}: none runs).
  static bool Fits(const channel::WorkerMessage& request, const rendezvous::Generation& current);
  /// Returns the answer to a request that does not; nullopt for a StoreSet, which gets no answer.
  static std::optional<channel::StoreValues> Refuse(const channel::WorkerMessage& request);

  /// Returns the event for a worker's StoreSet, StoreGet or StoreWait; nullopt for other messages.
  std::optional<rendezvous::AgentEvent> Ask(int64_t connection, const channel::WorkerMessage& message,
                                            const rendezvous::Generation& generation);
  /// Returns the waiting connection and its answer; nullopt if no connection waits for this reply.
  std::optional<std::pair<int64_t, channel::StoreValues>> Answer(const rendezvous::StoreReply& reply);
  /// Returns the unanswered requests, to repeat after a reconnect.
  std::vector<rendezvous::AgentEvent> Open() const;
  /// Drops all requests because the generation is over.
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
