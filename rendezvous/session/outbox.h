// What an agent has said and may have to say again: its events to the service, numbered and kept until
// acknowledged, and some longer: reports about the generation that runs are given to a new service as well. A
// value; pure; not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "rendezvous/events.h"
#include "rendezvous/job_settings.h"
#include "rendezvous/session/stream_sender.h"

namespace mtrun::rendezvous {

class Outbox {
 public:
  using Item = StreamSender<AgentSaid>::Item;

  /// Completes an offer with what the service needs to know beside it.
  void Add(const AgentEvent& event);
  /// The next event that is still to be written on the current stream; counts as written from now on. Valid
  /// until the next change.
  std::optional<Item> Next() { return sender_.Next(); }
  void Acknowledge(uint64_t sequence);
  /// Follows what the service says: assignments, their end, answers.
  void Observe(const ServiceEvent& event);

  /// Nobody can follow a generation before this one any more.
  void OnSettled(const Generation& generation);

  /// A new stream of the session that the service still knows.
  void Resume() { sender_.Resume(); }
  /// A service that knows nothing: everything that still counts goes out again, numbered from 1.
  void StartOver();

  bool AllAcknowledged() const { return sender_.kept().empty(); }
  Generation seen() const { return seen_; }
  /// The newest one that it has heard of, also where it is no member; {0, 0} for none.
  Generation known() const { return last_ ? last_->generation : Generation{}; }
  int seen_restarts() const { return seen_restarts_; }
  int seen_refunds() const { return seen_refunds_; }
  /// What goes with a Hello.
  StreamOpened Opening(const JobSettings& settings) const;
  /// The generation that this node is in, {0, 0} for none.
  Generation current() const { return assignment_ ? assignment_->generation : Generation{}; }

  bool operator==(const Outbox&) const = default;
  std::string Describe() const;

 private:
  void SeeBudget(int restarts, int refunds);
  bool Counts(const AgentSaid& said) const;
  /// The generation that it is in; reports about it count no more.
  void Leave();

  StreamSender<AgentSaid> sender_;
  // Acknowledged, and a new service would need them: of a key the newest set, and all others in order.
  std::map<std::string, StoreSet> sets_;
  std::deque<AgentSaid> reports_;
  std::optional<Assignment> assignment_;  // of the generation that has not ended yet
  std::optional<Assignment> last_;        // the newest generation that it knows of
  Generation seen_;
  int seen_restarts_ = 0, seen_refunds_ = 0;
};

}  // namespace mtrun::rendezvous
