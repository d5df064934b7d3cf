// What a job's agents agree on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/version.h"
#include "rendezvous/fields.h"

namespace mtrun::rendezvous {

/// How often each node of a job of at most so many says that it lives, unless the job says otherwise: every
/// 0.5 s, and rarer where a service would hear more than 8000 heartbeats a second. More of them take two
/// processors whole, and what has happened is told late (docs/figures.md); a loss mostly shows in a
/// connection that ends, which is told at once.
Duration HeartbeatInterval(int max_nodes);

/// What every agent of a job must say alike; the first one to join sets it, a later one that differs is
/// refused.
struct JobSettings {
  std::string job_id = "none";
  std::string version = Version();  // of mtrun
  int min_nodes = 1;
  int max_nodes = 1;
  int max_restarts = 0;                          // job-wide budget of worker failures
  int refund_steps = 0;                          // so many steps give one of them back, 0: never
  Duration last_call = std::chrono::seconds(1);  // wait for more than min_nodes at the first formation
  // The same for more disks, where checkpoints may be: the longer of the two counts; zero: last_call.
  Duration cold_start_wait = Duration::zero();
  Duration heartbeat_interval = HeartbeatInterval(1);
  int heartbeats_missed = 3;  // a node is lost after interval x missed
  Duration reconnect_grace = std::chrono::milliseconds(200);
  Duration join_timeout = std::chrono::seconds(600);  // how long the first formation may take
  Duration min_nodes_timeout = Duration::zero();      // how long a job holds below min_nodes; zero: for ever
  Duration fence_timeout = std::chrono::seconds(30);  // a node's lease; zero: none, it never ends
  std::vector<std::string> endpoints;  // of all services that may have it, in order; one or none: no choice
  bool takeover_any = false;           // a service changes the membership even when another one might too
  bool takeover_majority = false;      // more than half of the members do, also when the host is only silent
  std::string program;  // what all nodes run, where the job has the default id; "": whatever each one runs
  /// A node that has been silent for so long is lost.
  Duration LostAfter() const { return heartbeat_interval * heartbeats_missed; }
  bool operator==(const JobSettings&) const = default;
  template <typename Self, typename Field>
  static void Fields(Self& self, Field&& field) {
    field("job_id", self.job_id, Size{1, kMaxName});
    field("version", self.version, Size{0, kMaxName});
    field("min_nodes", self.min_nodes, Range{1, std::max(1, self.max_nodes)});
    field("max_nodes", self.max_nodes, Range{1, kMaxNodes});
    field("max_restarts", self.max_restarts, Range{0, kMaxRestarts});
    field("refund_steps", self.refund_steps, Range{0, kMaxRestarts});
    field("last_call", self.last_call, Range{0, kMaxNanoseconds});
    field("cold_start_wait", self.cold_start_wait, Range{0, kMaxNanoseconds});
    field("heartbeat_interval", self.heartbeat_interval, Range{1'000'000, int64_t{3600} * 1'000'000'000});
    field("heartbeats_missed", self.heartbeats_missed, Range{1, 1'000'000});
    field("reconnect_grace", self.reconnect_grace, Range{0, kMaxNanoseconds});
    field("join_timeout", self.join_timeout, Range{0, kMaxNanoseconds});
    field("min_nodes_timeout", self.min_nodes_timeout, Range{0, kMaxNanoseconds});
    field("fence_timeout", self.fence_timeout, Range{0, kMaxNanoseconds});
    field("endpoints", self.endpoints, List{{0, kMaxEndpoints}, {1, kMaxName}});
    field("takeover_any", self.takeover_any);
    field("takeover_majority", self.takeover_majority);
    field("program", self.program, Size{0, kMaxName});
  }
};

/// What an agent's settings say otherwise than the job's, one text a key: "max_nodes is 3 here, 2 in the
/// job".
std::vector<std::string> DifferingSettings(const JobSettings& job, const JobSettings& here);

}  // namespace mtrun::rendezvous
