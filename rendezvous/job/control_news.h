// Notifies nodes of requests to the job from outside: every node, for its log. Nodes that come while all are
// to leave are notified once as well, and so is an evicted node that comes back. A value.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/clock.h"
#include "rendezvous/authority/roster.h"
#include "rendezvous/job/effect_list.h"
#include "rendezvous/wire/control_call.h"
#include "rendezvous/wire/types.h"

namespace mtrun::rendezvous {

/// Returns the outcome that schedulers know from a SIGTERM to every node.
JobOutcome StoppedOutcome(const ControlCall& call);

class ControlNews {
 public:
  /// Notifies every node that has a session but `except`. `leaves`: the node that a drain is about.
  void Tell(const ControlCall& call, const std::string& leaves, const std::string& except,
            const Roster& roster, EffectList* effects);
  /// Remembers that a member was evicted: it cannot be notified now.
  void OnEvicted(const std::string& node_id, const ControlCall& call, TimePoint now);
  /// Notifies a node whose stream has been opened.
  void OnOpened(const std::string& node_id, TimePoint now, EffectList* effects);
  /// Notes that the node's session is over: messages to it may be lost, so they are repeated if it returns.
  void OnGone(const std::string& node_id);
  /// Notes that the node's workers have left the generation from which it was evicted.
  void OnReady(const std::string& node_id) { evicted_.erase(node_id); }

  /// Returns the reason for a node that comes with a generation that the job has left: NodeEvicted if it was
  /// evicted, else GenerationOver.
  Cause WhyOver(const std::string& node_id, const Generation& held, TimePoint now) const;

  /// Returns how the job ends after its last node has left; `what` is the cause of that node's departure.
  /// Empty if the job does not end, because `lost` nodes may come back and continue it, and they were not
  /// told to leave.
  std::optional<JobOutcome> OutcomeOfLast(const Cause& what, bool lost) const;

  /// Returns "all are to leave; told: node1, node2" ("" if not), and the evicted nodes that are not back.
  std::string Describe() const;

  bool operator==(const ControlNews&) const = default;

 private:
  /// Most evicted nodes never come back, so of more than these the earliest are forgotten.
  static constexpr size_t kMaxEvicted = 256;
  struct Evicted {
    std::string node;  // its name in the job
    Requester by;
    TimePoint at;
    bool told = false;
    bool operator==(const Evicted&) const = default;
  };
  static ControlCall NewsOf(const Evicted& evicted, TimePoint now);

  std::map<std::string, Evicted> evicted_;
  std::optional<ControlCall> all_leave_;
  std::set<std::string> told_;  // nodes told to leave with all others
};

}  // namespace mtrun::rendezvous
