// The settings that all agents of a job share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/version.h"
#include "rendezvous/wire/fields.h"

namespace mtrun::rendezvous {

/// Returns the default heartbeat interval of each node for a job of at most `max_nodes`: 0.5 s, or longer if
/// a service would receive more than 8000 heartbeats a second. More of them occupy two processors, and news
/// is late (docs/figures.md). Most losses show at once as a connection that ends.
Duration HeartbeatInterval(int max_nodes);

/// Settings that must be equal on all agents of a job. The first agent to join sets them; a later one that
/// differs is refused.
struct JobSettings {
  std::string job_id = "none";
  std::string version = Version();  // of mtrun
  int min_nodes = 1;
  int max_nodes = 1;
  int max_restarts = 0;                          // job-wide budget of worker failures
  int refund_steps = 0;                          // this many steps give one of them back; 0: never
  Duration last_call = std::chrono::seconds(1);  // wait for more than min_nodes at the first formation
  // Like last_call, for more disks that may have checkpoints; the longer of the two counts. Zero: last_call.
  Duration cold_start_wait = Duration::zero();
  Duration heartbeat_interval = HeartbeatInterval(1);
  int heartbeats_missed = 3;  // a node is lost after interval x missed
  // The interval by which the silence of a node with an ordinary program is judged: torchrun's default. It
  // sends heartbeats as often as others.
  Duration ordinary_interval = std::chrono::seconds(5);
  Duration reconnect_grace = std::chrono::milliseconds(200);
  Duration join_timeout = std::chrono::seconds(600);  // limit for the first formation
  Duration min_nodes_timeout = Duration::zero();  // how long a job may hold below min_nodes; zero: forever
  Duration fence_timeout = std::chrono::seconds(30);  // a node's lease; zero: leases never end
  std::vector<std::string> endpoints;  // all services that may have the job, in order; at most one: no choice
  bool takeover_any = false;           // a service changes the membership even if another one might too
  bool takeover_majority = false;  // more than half of the members decide, also if the host is only silent
  std::string program;             // the program of all nodes, if the job has the default id; "": any
  /// Returns the silence after which a node is lost.
  Duration LostAfter() const { return heartbeat_interval * heartbeats_missed; }
  /// The same for a member of a generation of an ordinary program, which would start again.
  Duration OrdinaryLostAfter() const {
    return std::max(heartbeat_interval, ordinary_interval) * heartbeats_missed;
  }
  bool operator==(const JobSettings&) const = default;
  static void Fields(auto& self, auto&& field) {
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
    field("ordinary_interval", self.ordinary_interval, Range{0, int64_t{3600} * 1'000'000'000});
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

/// Returns how an agent's settings differ from the job's, one text for each key: "max_nodes is 3 here, 2 in
/// the job".
std::vector<std::string> DifferingSettings(const JobSettings& job, const JobSettings& here);

}  // namespace mtrun::rendezvous
