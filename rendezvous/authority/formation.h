// Decides which nodes are in the next generation and in which order, with the reason in words. Pure free
// functions, for any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "rendezvous/wire/types.h"

namespace mtrun::rendezvous {

/// A connected node that offers itself.
struct Candidate {
  std::string node_id;
  std::string host;
  std::optional<int> node_rank;  // --node_rank
  std::optional<int> place;      // its node_rank in the last generation, if it is a survivor
  uint64_t arrival = 0;          // grows with each offer
  std::string address = {};      // where others reach it; orders the nodes of one host
};

struct FormationInput {
  int min_nodes = 1;
  int max_nodes = 1;
  bool first = true;                        // no generation has been formed or adopted yet
  size_t ready_nodes = 0;                   // number of ready nodes
  std::vector<Candidate> ready;             // the ready nodes; empty if they are only counted
  std::vector<std::string> awaited;         // names of live members that have not offered again
  std::vector<std::string> starting;        // names of nodes whose workers are not ready yet
  std::optional<TimePoint> last_call_ends;  // set while at least min_nodes are ready, first formation only
  bool cold_start_waits = false;            // the last call lasts for cold_start_wait
  TimePoint recovery_ends;                  // until then, running nodes may return to a new service
};

struct FormationDecision {
  bool form = false;
  std::vector<std::string> order = {};     // node ids by node_rank; only when `form`
  std::string reason = {};                 // also shown to people who wait
  std::optional<TimePoint> retry_at = {};  // set if time alone changes the answer
};
inline FormationDecision PutOff(std::string reason, std::optional<TimePoint> retry_at = {}) {
  return {.reason = std::move(reason), .retry_at = retry_at};
}

/// Decides whether to form a generation now. The first one forms at max_nodes at once, or at min_nodes when
/// the last call is over. A later one forms as soon as no live member is awaited and min_nodes are ready;
/// survivors precede newcomers if there are more than max_nodes. If the ready nodes are only counted, the
/// order is empty.
FormationDecision DecideFormation(const FormationInput& input, TimePoint now);

/// Returns the order of the nodes: survivors by their places, then newcomers by natural order of hosts (on
/// one host by address, then by arrival). Then each node with a node_rank moves to that place, or as near as
/// the others' ranks allow.
std::vector<std::string> OrderNodes(std::vector<Candidate> nodes);

/// Returns members with contiguous ranks in the order of `offers`; node 0's address and port are the
/// master's. A node on the machine of the job's endpoint may offer a loopback address: it gets the address at
/// which one of the others reaches the endpoint.
Assignment MakeAssignment(const Generation& generation, const std::vector<Offer>& offers, int restart_count,
                          int refunded = 0);

}  // namespace mtrun::rendezvous
