// An agent's events to the service, numbered and kept until acknowledged. Some are kept longer: a new service
// also needs the reports about the running generation. A value; pure; not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "rendezvous/session/stream_sender.h"
#include "rendezvous/wire/events.h"
#include "rendezvous/wire/job_settings.h"

namespace mtrun::rendezvous {

class Outbox {
 public:
  using Item = StreamSender<AgentSaid>::Item;

  /// Adds an event, and completes an offer with what the service needs beside it.
  void Add(const AgentEvent& event);
  /// Returns the next event to be written on the current stream; it counts as written from now on. Valid
  /// until the next change.
  std::optional<Item> Next() { return sender_.Next(); }
  void Acknowledge(uint64_t sequence);
  /// Follows the service's events: assignments, their end, answers. Returns false if the event is not to be
  /// handled: an assignment to a generation before the newest of this node. A service sends again what it
  /// never saw acknowledged, even if the node has been in a later generation of another service since.
  bool Observe(const ServiceEvent& event);

  /// Notes that no generation before this one can be followed any more.
  void OnSettled(const Generation& generation);

  /// Continues on a new stream of a session that the service still knows.
  void Resume() { sender_.Resume(); }
  /// Starts with a service that knows nothing: all that still counts is sent again, numbered from 1.
  void StartOver();

  bool AllAcknowledged() const { return sender_.kept().empty(); }
  Generation seen() const { return seen_; }
  /// The newest generation that it knows of, even if it is not a member; {0, 0} for none.
  Generation known() const { return last_ ? last_->generation : Generation{}; }
  int seen_restarts() const { return seen_restarts_; }
  int seen_refunds() const { return seen_refunds_; }
  /// Returns the data for a Hello.
  StreamOpened Opening(const JobSettings& settings) const;
  /// The generation that this node is in, {0, 0} for none.
  Generation current() const { return assignment_ ? assignment_->generation : Generation{}; }

  bool operator==(const Outbox&) const = default;
  std::string Describe() const;

 private:
  void SeeBudget(int restarts, int refunds);
  bool Counts(const AgentSaid& said) const;
  /// Leaves the generation that the node is in; reports about it do not count any more.
  void Leave();

  StreamSender<AgentSaid> sender_;
  // Acknowledged, but needed by a new service: the newest set of each key, and all others in order.
  std::map<std::string, StoreSet> sets_;
  std::deque<AgentSaid> reports_;
  std::optional<Assignment> assignment_;  // if that generation has not ended yet
  std::optional<Assignment> last_;        // the newest generation that it knows of
  Generation seen_;
  int seen_restarts_ = 0, seen_refunds_ = 0;
};

}  // namespace mtrun::rendezvous
