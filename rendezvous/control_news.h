// Who hears what was asked of a job from outside: every node, for its log; those that come while all are to
// leave are told as well, once. A value.
#pragma once

#include <optional>
#include <set>
#include <string>

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
  /// A node's stream is there.
  void OnOpened(const std::string& node_id, EffectList* effects);
  /// Its session is over, and what it was sent may be lost with it: it is told again should it come back.
  void OnGone(const std::string& node_id) { told_.erase(node_id); }

  /// How the job ends when its last node has left, which is `what`.
  JobOutcome OutcomeOfLast(const std::string& what) const;

  /// "all are to leave; told: node1, node2", "" while they are not to.
  std::string Describe() const;

  bool operator==(const ControlNews&) const = default;

 private:
  std::optional<ControlCall> all_leave_;
  std::set<std::string> told_;  // to leave, with all
};

}  // namespace mtrun::rendezvous
