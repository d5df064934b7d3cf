// Job states as reported by a service.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "rendezvous/client/watch_client.h"

namespace mtrun::page {

inline rendezvous::NodeView ANode(const std::string& name, int rank, int workers = 1) {
  rendezvous::NodeView node;
  node.node_id = name + "-1-abc";
  node.host = name;
  node.address = "10.0.0." + std::to_string(rank + 1);
  node.state = "member";
  node.node_rank = rank;
  node.first_rank = rank * workers;
  node.workers = workers;
  return node;
}

inline rendezvous::WatchedNode AUse(const std::string& name, int rank, int64_t asked) {
  rendezvous::WatchedNode node{"job", name + "-1-abc", {}, {}};
  node.use.asked = asked;
  node.use.machine_cpus = 4;
  node.use.measured = std::chrono::seconds(10 * asked);
  node.use.cpu = std::chrono::seconds(20 * asked);
  node.use.memory = 1 << 30;
  node.use.memory_total = int64_t{4} << 30;
  node.use.workers.push_back({.rank = rank,
                              .pid = 100 + rank,
                              .step = 7 * asked,
                              .samples = 640 * asked,
                              .step_time = std::chrono::milliseconds(100),
                              .exchange_wait = std::chrono::milliseconds(rank == 1 ? 0 : 60),
                              .cpu = std::chrono::seconds(5 * asked),
                              .memory = 1 << 20,
                              .loss = 2.5 - 0.5 * rank,
                              .learning_rate = 0.125,
                              .accuracy = 0.75,
                              .epoch = 2,
                              .epochs = 5,
                              .total_steps = 34,
                              .run = "cnnA-2"});
  return node;
}

/// Returns a job of `nodes` nodes n0, n1 ... with a worker each, which have answered request `asked`.
inline rendezvous::WatchedState AState(int nodes, int64_t asked) {
  rendezvous::WatchedState state;
  rendezvous::JobView job;
  job.settings.job_id = "job";
  job.phase = "running";
  job.generation = {3, 9};
  for (int rank = 0; rank < nodes; ++rank) {
    const std::string name = absl::StrCat("n", rank);
    job.nodes.push_back(ANode(name, rank));
    state.nodes.push_back(AUse(name, rank, asked));
  }
  state.status.jobs.push_back(job);
  return state;
}

}  // namespace mtrun::page
