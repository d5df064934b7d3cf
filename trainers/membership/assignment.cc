#include "trainers/membership/assignment.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/value_or.h"
#include "base/worker_channel.h"

namespace mtrun::trainers {

absl::Status CheckFits(int world_size) {
  static_assert(2 * kMaxWorkersOfMtrun + 1 < static_cast<int>(channel::kMaxStoreEntries));
  if (world_size <= kMaxWorkersOfMtrun) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a job of trainers has at most ", kMaxWorkersOfMtrun,
                                                 " workers, but this one has ", world_size,
                                                 ": lower --nnodes or --nproc_per_node"));
}

bool MeansRegroup(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable || status.code() == absl::StatusCode::kAborted;
}

std::string HostOf(const Assignment& assignment, int rank) {
  int first = 0;
  for (const MemberNode& member : assignment.members) {
    if (rank < first + member.workers) return member.host;
    first += member.workers;
  }
  return "";
}

Launch LaunchOf(const EnvironmentMap& environment) {
  if (!ValueOr(environment, "MTRUN_SOCKET").empty()) return Launch::kMtrun;
  return IsLaunched(environment) ? Launch::kByHand : Launch::kAlone;
}

absl::StatusOr<Assignment> ReadAssignment(const EnvironmentMap& environment) {
  if (LaunchOf(environment) == Launch::kAlone) return Assignment{};
  MT_ASSIGN_OR_RETURN(const WorkerEnv worker, ParseWorkerEnv(environment));
  return Assignment{.rank = worker.rank,
                    .world_size = worker.world_size,
                    .local_rank = worker.local_rank,
                    .local_world_size = worker.local_world_size,
                    .first_on_node = worker.local_rank == 0,
                    .nodes = worker.group_world_size};
}

absl::StatusOr<int64_t> ConfiguredWorld(const EnvironmentMap& environment) {
  MT_ASSIGN_OR_RETURN(const Assignment assignment, ReadAssignment(environment));
  const std::string configured = ValueOr(environment, "MTRUN_CONFIGURED_WORLD");
  if (configured.empty()) return assignment.world_size;
  int64_t world = 0;
  if (!absl::SimpleAtoi(configured, &world) || world < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("MTRUN_CONFIGURED_WORLD is \"", configured, "\"; it must be a whole number, 1 or more"));
  }
  return world;
}

}  // namespace mtrun::trainers
