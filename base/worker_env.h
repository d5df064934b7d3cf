// The environment that tells a worker its place in the job: torchrun's variables and MTRUN_SOCKET,
// MTRUN_GENERATION, MTRUN_LEASE. docs/protocol.md lists every variable. Values only: except for
// CurrentEnvironment() nothing here reads or changes the process's own environment.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace mtrun {

using EnvironmentMap = std::map<std::string, std::string>;

struct WorkerEnv {
  int rank = 0;                           // RANK, 0..world_size-1
  int local_rank = 0;                     // LOCAL_RANK, 0..local_world_size-1
  int world_size = 1;                     // WORLD_SIZE, workers of the job
  int local_world_size = 1;               // LOCAL_WORLD_SIZE, workers of this node
  int group_rank = 0;                     // GROUP_RANK, the node's index
  int group_world_size = 1;               // GROUP_WORLD_SIZE, nodes
  int role_rank = 0;                      // ROLE_RANK
  int role_world_size = 1;                // ROLE_WORLD_SIZE
  std::string role_name = "default";      // ROLE_NAME
  std::string master_addr = "127.0.0.1";  // MASTER_ADDR
  int master_port = 0;                    // MASTER_PORT
  int restart_count = 0;                  // TORCHELASTIC_RESTART_COUNT, job-wide
  int max_restarts = 0;                   // TORCHELASTIC_MAX_RESTARTS
  std::string run_id = "none";            // TORCHELASTIC_RUN_ID
  std::string error_file;                 // TORCHELASTIC_ERROR_FILE, "" for none
  std::string socket;                     // MTRUN_SOCKET, "" if not started by mtrun
  std::string generation;                 // MTRUN_GENERATION, "number.id", "" if not started by mtrun
  int lease = -1;                         // MTRUN_LEASE, descriptor of the lease's page; -1: no lease

  bool operator==(const WorkerEnv&) const = default;
};

/// Returns the variables of one worker, including TORCHELASTIC_USE_AGENT_STORE=False, to overlay the parent's
/// environment.
EnvironmentMap ToEnvironment(const WorkerEnv& worker);

/// Returns whether a launcher's variables (RANK and WORLD_SIZE) are set.
bool IsLaunched(const EnvironmentMap& environment);

/// Reads the output of ToEnvironment, or variables set by torchrun or by hand (then only RANK, WORLD_SIZE,
/// MASTER_ADDR and MASTER_PORT are needed). kInvalidArgument names the variable, its value and what is
/// allowed.
absl::StatusOr<WorkerEnv> ParseWorkerEnv(const EnvironmentMap& environment);

EnvironmentMap CurrentEnvironment();

}  // namespace mtrun
