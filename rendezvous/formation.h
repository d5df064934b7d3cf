// Who is in the next generation and in which order: pure decisions, with the reason in words. Free functions,
// any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "rendezvous/types.h"

namespace mtrun::rendezvous {

/// A node that offers itself and is connected.
struct Candidate {
  std::string node_id;
  std::string host;
  std::optional<int> node_rank;  // --node_rank
  std::optional<int> place;      // its node_rank in the last generation: a survivor
  uint64_t arrival = 0;          // grows with each offer
  std::string address = {};      // at which others reach it; orders the nodes of one host
};

struct FormationInput {
  int min_nodes = 1;
  int max_nodes = 1;
  bool first = true;                        // nothing has been formed or adopted yet
  size_t ready_nodes = 0;                   // so many are ready
  std::vector<Candidate> ready;             // these; none where they are only counted
  std::vector<std::string> awaited;         // names of live members that have not offered again
  std::vector<std::string> starting;        // names of nodes whose workers are not ready yet
  std::optional<TimePoint> last_call_ends;  // set while at least min_nodes are ready, first formation only
  bool cold_start_waits = false;            // the last call is cold_start_wait's
  TimePoint recovery_ends;                  // until then nodes that still run may come back to a new service
};

struct FormationDecision {
  bool form = false;
  std::vector<std::string> order;     // node ids by node_rank; only when `form`
  std::string reason;                 // also what waiting people read
  std::optional<TimePoint> retry_at;  // when time alone changes the answer
};

/// Where the ready nodes are only counted its order is empty. First formation: max_nodes at once, min_nodes
/// when the last call is over. Later ones: as soon as no live member is awaited and min_nodes are ready;
/// survivors go before newcomers when there are more than max_nodes.
FormationDecision DecideFormation(const FormationInput& input, TimePoint now);

/// The order of nodes: survivors by their places, newcomers behind them by natural order of hosts (on
/// one host by address, then by arrival); then each node with a node_rank is put at that place (or as near as
/// the others' ranks allow).
std::vector<std::string> OrderNodes(std::vector<Candidate> nodes);

/// Members with contiguous ranks in the given order of offers, and node 0's address and port as the master's.
Assignment MakeAssignment(const Generation& generation, const std::vector<Offer>& offers, int restart_count,
                          int refunded = 0);

/// kInvalidArgument unless members are distinct, in order, and their ranks contiguous from 0 to world_size-1;
/// and earlier generations have distinct members too.
absl::Status ValidateAssignment(const Assignment& assignment);

}  // namespace mtrun::rendezvous
