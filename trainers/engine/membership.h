// Who this worker is and whom it trains with: from mtrun (MTRUN_SOCKET), from RANK, WORLD_SIZE, MASTER_ADDR
// and MASTER_PORT (torchrun, Slurm, by hand), or alone. Under mtrun the membership changes while the process
// lives: see Regroup. Public methods of Team: training thread only, unless they say otherwise.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/worker_client.h"
#include "base/worker_env.h"
#include "trainers/collectives/device_group.h"

namespace mtrun::engine {

class Lifeline;
class WaitReporter;

/// Where the assignment comes from.
enum class Launch { kAlone, kByHand, kMtrun };

struct Assignment {
  int rank = 0, world_size = 1;
  int local_rank = 0, local_world_size = 1;
  bool first_on_node = true;  // its lowest rank; local rank 0 may have no worker for a while
  int nodes = 1;
  bool operator==(const Assignment&) const = default;
};

/// kMtrun when MTRUN_SOCKET is there, kByHand with RANK and WORLD_SIZE, else kAlone.
Launch LaunchOf(const EnvironmentMap& environment);
/// Alone without a launcher's variables. kInvalidArgument names what is missing or malformed.
absl::StatusOr<Assignment> ReadAssignment(const EnvironmentMap& environment);
/// Workers that the job is configured for: MTRUN_CONFIGURED_WORLD, else WORLD_SIZE, else 1.
absl::StatusOr<int64_t> ConfiguredWorld(const EnvironmentMap& environment);

/// True for what a broken or dissolved group leaves behind (kUnavailable, kAborted): the step is torn, the
/// run is not.
bool MeansRegroup(const absl::Status& status);

class Team {
 public:
  /// Connects to the agent and to the other workers; waits for all of them. With a CUDA `device` the group
  /// sums its tensors too.
  static absl::StatusOr<std::unique_ptr<Team>> Join(const EnvironmentMap& environment,
                                                    at::Device device = at::Device(at::kCPU));
  ~Team();

  /// Of the running generation.
  const Assignment& assignment() const { return assignment_; }
  /// The rendezvous service's number of the running generation, 1 without one.
  uint64_t generation() const { return generation_; }
  /// Null when the world is one worker.
  const collectives::ProcessGroup& group() const { return group_; }

  /// True under mtrun, whose agent gives a new assignment when a generation dissolves.
  bool elastic() const { return agent_ != nullptr; }
  /// After a collective failed with kUnavailable, or at a boundary that all members agreed on: waits for the
  /// next generation and connects to its members. The old group is gone then. Any number of generations may
  /// pass meanwhile. Errors: `why` itself where there is no agent; kUnavailable when the agent went away,
  /// kCancelled when it says stop, or drain and no assignment comes within a second.
  absl::Status Regroup(const absl::Status& why);
  /// When the running generation's assignment came, and when its group was connected.
  TimePoint assigned_at() const { return assigned_at_; }
  TimePoint connected_at() const { return connected_at_; }
  /// A new generation is wanted or here, nobody of the running one is lost: all of them leave it behind the
  /// same step. Any thread.
  bool wants_regroup() const;
  /// The running generation is known to be over: collectives of it fail or are about to. Any thread.
  bool generation_is_over() const;
  /// A signal or the agent wants this worker to finish its step and go; why. Any thread.
  bool wants_drain() const;
  std::string drain_wish() const;

  /// Tell the agent. A lost agent is not these calls' business. No-ops without mtrun. ReportProgress may be
  /// called as often as one likes: it speaks now and then.
  void ReportProgress(int64_t epoch, int64_t step, int64_t samples);
  void ReportLeaving(std::string_view why);
  /// The run is complete. Stays until the agent says that the job is over: a membership that begins at this
  /// moment counts on this worker and cannot begin without it. kUnavailable: so it is; Regroup and report
  /// again.
  absl::Status ReportDone(int64_t step);

 private:
  explicit Team(at::Device device);
  absl::Status ConnectAgent(const WorkerEnv& worker);
  absl::Status ConnectByHand(const WorkerEnv& worker, bool agent_serves);
  absl::StatusOr<channel::Assignment> NextAssignment(const absl::Status& why);
  absl::Status Enter(const channel::Assignment& given);

  const at::Device device_;
  Assignment assignment_;
  uint64_t generation_ = 1;
  channel::Generation entered_;
  TimePoint assigned_at_, connected_at_;
  std::shared_ptr<Lifeline> lifeline_;
  std::unique_ptr<WorkerClient> agent_;
  std::shared_ptr<collectives::Bootstrap> bootstrap_;
  collectives::ProcessGroup group_;
  std::optional<TimePoint> told_progress_;
  std::unique_ptr<WaitReporter> waits_;  // reads the group: it goes first
};

}  // namespace mtrun::engine
