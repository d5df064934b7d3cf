// Configurations and assignments shared by the tests of the agent's core.
#pragma once

#include "absl/strings/str_cat.h"
#include "launcher/core/agent_core.h"

namespace mtrun::launcher {

inline AgentConfig Config(int workers) {
  AgentConfig config;
  config.offer.node_id = "me";
  config.offer.host = "node1";
  config.offer.address = "10.0.0.2";
  config.offer.workers = workers;
  config.endpoint = "node0:29400";
  config.max_restarts = 3;
  return config;
}

/// Returns an assignment of `nodes` nodes with `workers` workers each; this node is number `me`.
inline rendezvous::Assignment AssignmentOf(uint64_t number, int nodes, int me, int workers) {
  rendezvous::Assignment assignment;
  assignment.generation = {number, number * 16};
  for (int i = 0; i < nodes; ++i) {
    rendezvous::Member member;
    member.node_id = i == me ? "me" : absl::StrCat("other", i);
    member.host = absl::StrCat("node", i);
    member.address = absl::StrCat("10.0.0.", i + 1);
    member.node_rank = i;
    member.first_rank = i * workers;
    member.workers = workers;
    assignment.members.push_back(member);
  }
  assignment.world_size = nodes * workers;
  assignment.master_address = "10.0.0.1";
  assignment.master_port = 4000 + static_cast<int>(number);
  return assignment;
}

}  // namespace mtrun::launcher
