// What an agent has said and may have to say again: events in order with their sequence numbers, kept until
// acknowledged, and some longer: reports about the generation that runs are given to a new service as well.
// Pure; not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "rendezvous/events.h"

namespace mtrun::rendezvous {

class Outbox {
 public:
  struct Entry {
    uint64_t sequence = 0;
    AgentSaid said;
    bool written = false;       // on the current stream
    bool acknowledged = false;  // kept only because a new service would need it
  };

  /// Completes an offer with what the service needs to know beside it.
  void Add(const AgentEvent& event);
  /// The next event that is still to be written on the current stream; marks it written. Valid until the next
  /// change.
  const Entry* Next();
  void Acknowledge(uint64_t sequence);
  /// Follows what the service says: assignments, their end, answers.
  void Observe(const ServiceEvent& event);

  /// A new stream of the session that the service still knows.
  void Resume();
  /// A service that knows nothing: everything that still counts goes out again, numbered from 1.
  void BeginAnew();

  bool AllAcknowledged() const;
  Generation seen() const { return seen_; }
  int seen_restarts() const { return seen_restarts_; }
  int seen_refunds() const { return seen_refunds_; }

 private:
  void SeeBudget(int restarts, int refunds);
  bool Held(const AgentSaid& said) const;
  void Sweep();

  std::deque<Entry> entries_;
  uint64_t next_sequence_ = 1;
  std::optional<Assignment> assignment_;  // of the generation that has not been dissolved yet
  Generation seen_;
  int seen_restarts_ = 0, seen_refunds_ = 0;
};

}  // namespace mtrun::rendezvous
