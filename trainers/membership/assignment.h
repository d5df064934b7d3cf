// A worker's assignment as a launcher's environment describes it: mtrun's (MTRUN_SOCKET), RANK, WORLD_SIZE,
// MASTER_ADDR and MASTER_PORT (torchrun, Slurm, by hand), or none. Pure functions, independent of LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/worker_env.h"

namespace mtrun::trainers {

/// Source of the assignment.
enum class Launch { kAlone, kByHand, kMtrun };

/// A node and its number of workers.
struct MemberNode {
  std::string host;
  int workers = 0;
  bool operator==(const MemberNode&) const = default;
};

struct Assignment {
  int rank = 0, world_size = 1;
  int local_rank = 0, local_world_size = 1;
  bool first_on_node = true;  // its lowest rank; local rank 0 can be vacant for a while
  int nodes = 1;
  std::vector<MemberNode> members = {};  // by first rank; empty if only the launcher knows them
  bool operator==(const Assignment&) const = default;
};

/// Returns the host of a rank, "" if it is not known.
std::string HostOf(const Assignment& assignment, int rank);

/// Returns kMtrun if MTRUN_SOCKET is set, kByHand if RANK and WORLD_SIZE are, otherwise kAlone.
Launch LaunchOf(const EnvironmentMap& environment);
/// Returns the environment's assignment, or a single worker's if no launcher's variables are set.
/// kInvalidArgument names the missing or malformed variable.
absl::StatusOr<Assignment> ReadAssignment(const EnvironmentMap& environment);
/// Returns the number of configured workers: MTRUN_CONFIGURED_WORLD, else WORLD_SIZE, else 1.
absl::StatusOr<int64_t> ConfiguredWorld(const EnvironmentMap& environment);

/// Limit of workers under mtrun: each puts two keys into its generation's key-value space, which holds
/// channel::kMaxStoreEntries. A TCP store has no limit.
inline constexpr int kMaxWorkersOfMtrun = 2000;
/// Returns kInvalidArgument if there are more.
absl::Status CheckFits(int world_size);

/// Returns true for a broken group or an ended generation (kUnavailable, kAborted): the run continues.
bool MeansRegroup(const absl::Status& status);

}  // namespace mtrun::trainers
