// Who hears what was asked of a job from outside: every node, for its log; those that come while all are to
// leave are told as well, once, and so is an evicted node that comes back. A value.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/clock.h"
#include "rendezvous/control_call.h"
#include "rendezvous/effect_list.h"
#include "rendezvous/roster.h"
#include "rendezvous/types.h"

namespace mtrun::rendezvous {

/// As if every node had been sent SIGTERM: schedulers know that status.
JobOutcome StoppedOutcome(const ControlCall& call);

class ControlNews {
 public:
  /// To every node that has a session but `except`. `leaves`: the node that is to leave; with a stop that
  /// saves all are.
  void Tell(const ControlCall& call, const std::string& leaves, const std::string& except,
            const Roster& roster, EffectList* effects);
  /// A member is evicted, which nobody can tell it now.
  void OnEvicted(const std::string& node_id, const ControlCall& call, TimePoint now);
  /// A node's stream is there.
  void OnOpened(const std::string& node_id, TimePoint now, EffectList* effects);
  /// Its session is over, and what it was sent may be lost with it: it is told again should it come back.
  void OnGone(const std::string& node_id);
  /// Its workers have left what it was evicted from.
  void OnReady(const std::string& node_id) { evicted_.erase(node_id); }

  /// For a node that comes with a generation that the job has left: "node3 was evicted 12 s ago by
  /// anna@login1 (pid 4711)" where that is why.
  std::string WhyOver(const std::string& node_id, const Generation& held, TimePoint now) const;

  /// How the job ends when its last node has left, which is `what`.
  JobOutcome OutcomeOfLast(const std::string& what) const;

  /// "all are to leave; told: node1, node2", "" while they are not to; evicted nodes that are not back.
  std::string Describe() const;

  bool operator==(const ControlNews&) const = default;

 private:
  /// Most evicted nodes never come back: of more than these the earliest are forgotten.
  static constexpr size_t kMostEvicted = 256;
  struct Evicted {
    ControlCall call;
    TimePoint at;
    bool told = false;
    bool operator==(const Evicted&) const = default;
  };
  static ControlCall NewsOf(const Evicted& evicted, TimePoint now);

  std::map<std::string, Evicted> evicted_;
  std::optional<ControlCall> all_leave_;
  std::set<std::string> told_;  // to leave, with all
};

}  // namespace mtrun::rendezvous
