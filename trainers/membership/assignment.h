// Which worker this is, as a launcher's environment says: mtrun's (MTRUN_SOCKET), RANK, WORLD_SIZE,
// MASTER_ADDR and MASTER_PORT (torchrun, Slurm, by hand), or none. Pure functions, free of LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/worker_env.h"

namespace mtrun::trainers {

/// Where the assignment comes from.
enum class Launch { kAlone, kByHand, kMtrun };

/// A node and how many of the workers are on it.
struct MemberNode {
  std::string host;
  int workers = 0;
  bool operator==(const MemberNode&) const = default;
};

struct Assignment {
  int rank = 0, world_size = 1;
  int local_rank = 0, local_world_size = 1;
  bool first_on_node = true;  // its lowest rank; local rank 0 may have no worker for a while
  int nodes = 1;
  std::vector<MemberNode> members = {};  // by first rank; empty where only the launcher knows
  bool operator==(const Assignment&) const = default;
};

/// The host of a rank, "" where it is not known.
std::string HostOf(const Assignment& assignment, int rank);

/// kMtrun when MTRUN_SOCKET is there, kByHand with RANK and WORLD_SIZE, else kAlone.
Launch LaunchOf(const EnvironmentMap& environment);
/// Alone without a launcher's variables. kInvalidArgument names what is missing or malformed.
absl::StatusOr<Assignment> ReadAssignment(const EnvironmentMap& environment);
/// Workers that the job is configured for: MTRUN_CONFIGURED_WORLD, else WORLD_SIZE, else 1.
absl::StatusOr<int64_t> ConfiguredWorld(const EnvironmentMap& environment);

/// Each worker of mtrun's puts two keys into the key-value space of its generation, which takes
/// channel::kMaxStoreEntries; that of a TCP store takes any number.
inline constexpr int kMostWorkersOfMtrun = 2000;
/// kInvalidArgument where there are more.
absl::Status CheckFits(int world_size);

/// True for the errors of a broken group or an ended generation (kUnavailable, kAborted): the step is
/// aborted, the run is not.
bool MeansRegroup(const absl::Status& status);

}  // namespace mtrun::trainers
