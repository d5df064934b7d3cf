// Who this worker is and whom it trains with: from mtrun (MTRUN_SOCKET), from RANK, WORLD_SIZE, MASTER_ADDR
// and MASTER_PORT (torchrun, Slurm, by hand), or alone. One membership for the whole run. Public methods of
// Team: training thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/worker_client.h"
#include "base/worker_env.h"
#include "trainers/collectives/cpu_group.h"

namespace mtrun::engine {

/// Where the assignment comes from.
enum class Launch { kAlone, kByHand, kMtrun };

struct Assignment {
  int rank = 0, world_size = 1;
  int local_rank = 0, local_world_size = 1;
  int nodes = 1;
  bool operator==(const Assignment&) const = default;
};

/// kMtrun when MTRUN_SOCKET is there, kByHand with RANK and WORLD_SIZE, else kAlone.
Launch LaunchOf(const EnvironmentMap& environment);
/// Alone without a launcher's variables. kInvalidArgument names what is missing or malformed.
absl::StatusOr<Assignment> ReadAssignment(const EnvironmentMap& environment);
/// Workers that the job is configured for: MTRUN_CONFIGURED_WORLD, else WORLD_SIZE, else 1.
absl::StatusOr<int64_t> ConfiguredWorld(const EnvironmentMap& environment);

class Team {
 public:
  /// Connects to the agent and to the other workers; waits for all of them.
  static absl::StatusOr<std::unique_ptr<Team>> Join(const EnvironmentMap& environment);
  ~Team();

  const Assignment& assignment() const { return assignment_; }
  /// Null when the world is one worker.
  const collectives::ProcessGroup& group() const { return group_; }

  /// Tells the agent how far the run is; a lost agent is not this call's business. No-ops without mtrun.
  void ReportProgress(int64_t epoch, int64_t step, int64_t samples);
  void ReportDone(int64_t step);

 private:
  Team() = default;
  absl::Status ConnectAgent(const WorkerEnv& worker);
  absl::Status ConnectGroup(const WorkerEnv& worker, Launch launch, bool agent_serves);

  struct Lifeline;  // what the client's reader thread and this object share
  Assignment assignment_;
  std::shared_ptr<Lifeline> lifeline_;
  std::unique_ptr<WorkerClient> agent_;
  std::shared_ptr<collectives::Bootstrap> bootstrap_;
  collectives::ProcessGroup group_;
};

}  // namespace mtrun::engine
