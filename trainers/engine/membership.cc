#include "trainers/engine/membership.h"

#include <unistd.h>
#include <mutex>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "trainers/collectives/agent_store.h"
#include "trainers/collectives/tcp_store_bootstrap.h"

namespace mtrun::engine {
namespace {

constexpr char kGenerationKey[] = "mtrun/generation";

bool Has(const EnvironmentMap& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found != environment.end() && !found->second.empty();
}

/// Workers without an agent have no generation: rank 0 makes a name that was never used before.
absl::StatusOr<std::string> AgreeOnGeneration(collectives::Bootstrap& bootstrap, int rank) {
  if (rank == 0) {
    MT_RETURN_IF_ERROR(bootstrap.Set(kGenerationKey, absl::StrCat("1.", absl::Hex(RandomBits()))));
  }
  MT_ASSIGN_OR_RETURN(const auto values, bootstrap.Wait({kGenerationKey}));
  return values.at(kGenerationKey);
}

}  // namespace

Launch LaunchOf(const EnvironmentMap& environment) {
  if (Has(environment, "MTRUN_SOCKET")) return Launch::kMtrun;
  return IsLaunched(environment) ? Launch::kByHand : Launch::kAlone;
}

absl::StatusOr<Assignment> ReadAssignment(const EnvironmentMap& environment) {
  if (LaunchOf(environment) == Launch::kAlone) return Assignment{};
  MT_ASSIGN_OR_RETURN(const WorkerEnv worker, ParseWorkerEnv(environment));
  return Assignment{.rank = worker.rank,
                    .world_size = worker.world_size,
                    .local_rank = worker.local_rank,
                    .local_world_size = worker.local_world_size,
                    .nodes = worker.group_world_size};
}

absl::StatusOr<int64_t> ConfiguredWorld(const EnvironmentMap& environment) {
  MT_ASSIGN_OR_RETURN(const Assignment assignment, ReadAssignment(environment));
  const auto configured = environment.find("MTRUN_CONFIGURED_WORLD");
  if (configured == environment.end() || configured->second.empty()) return assignment.world_size;
  int64_t world = 0;
  if (!absl::SimpleAtoi(configured->second, &world) || world < 1) {
    return absl::InvalidArgumentError(absl::StrCat("MTRUN_CONFIGURED_WORLD is \"", configured->second,
                                                   "\"; it takes a whole number, 1 or more"));
  }
  return world;
}

/// The agent's going away must end the group's waits, from the client's reader thread.
struct Team::Lifeline {
  std::mutex mutex;
  collectives::ProcessGroup group;  // guarded by mutex
  std::string lost;                 // guarded by mutex; why the agent is gone, "" while it is there

  void Lose(const std::string& why) {
    const std::lock_guard lock(mutex);
    lost = why;
    if (group) collectives::AbortGroup(group, why);
  }
  void Hold(const collectives::ProcessGroup& connected) {
    const std::lock_guard lock(mutex);
    group = connected;
    if (group && !lost.empty()) collectives::AbortGroup(group, lost);
  }
};

absl::StatusOr<std::unique_ptr<Team>> Team::Join(const EnvironmentMap& environment) {
  std::unique_ptr<Team> team(new Team());
  MT_ASSIGN_OR_RETURN(team->assignment_, ReadAssignment(environment));
  const Launch launch = LaunchOf(environment);
  if (launch == Launch::kAlone) return team;
  MT_ASSIGN_OR_RETURN(const WorkerEnv worker, ParseWorkerEnv(environment));
  if (launch == Launch::kMtrun) MT_RETURN_IF_ERROR(team->ConnectAgent(worker));
  if (team->assignment_.world_size == 1) return team;
  const auto agent_store = environment.find("TORCHELASTIC_USE_AGENT_STORE");
  const bool agent_serves = agent_store != environment.end() && agent_store->second == "True";
  MT_RETURN_IF_ERROR(team->ConnectGroup(worker, launch, agent_serves));
  return team;
}

Team::~Team() {
  if (lifeline_) lifeline_->Hold(nullptr);
}

absl::Status Team::ConnectAgent(const WorkerEnv& worker) {
  lifeline_ = std::make_shared<Lifeline>();
  WorkerClient::Handler handler;
  handler.closed = [lifeline = lifeline_](absl::Status status) {
    lifeline->Lose(absl::StrCat("the agent of this node is gone: ", status.message()));
  };
  channel::Hello hello;
  hello.pid = getpid();
  hello.local_rank = worker.local_rank;
  auto agent = WorkerClient::Connect(worker.socket, hello, std::move(handler));
  if (!agent.ok()) return Annotate(agent.status(), absl::StrCat("connect to mtrun at ", worker.socket));
  agent_ = *std::move(agent);
  return absl::OkStatus();
}

absl::Status Team::ConnectGroup(const WorkerEnv& worker, Launch launch, bool agent_serves) {
  collectives::Membership membership;
  membership.rank = worker.rank;
  membership.world_size = worker.world_size;
  if (launch == Launch::kMtrun) {
    bootstrap_ = std::make_shared<collectives::AgentStore>(*agent_);
    membership.generation = worker.generation;
  } else {
    if (worker.master_port == 0) {
      return absl::InvalidArgumentError(
          "RANK and WORLD_SIZE are set but MASTER_PORT is not: set MASTER_ADDR and "
          "MASTER_PORT too, or start the program with mtrun");
    }
    MT_ASSIGN_OR_RETURN(bootstrap_,
                        collectives::ConnectTcpStore(worker.master_addr, worker.master_port, worker.rank,
                                                     worker.world_size, agent_serves));
    MT_ASSIGN_OR_RETURN(membership.generation, AgreeOnGeneration(*bootstrap_, worker.rank));
  }
  auto group = collectives::ConnectCpuGroup(membership, bootstrap_);
  if (!group.ok()) return Annotate(group.status(), "connect to the other workers");
  group_ = *std::move(group);
  if (lifeline_) lifeline_->Hold(group_);
  return absl::OkStatus();
}

void Team::ReportProgress(int64_t epoch, int64_t step, int64_t samples) {
  if (!agent_) return;
  // Nothing to do about a failure here: a lost agent reports itself through the lifeline.
  agent_->Send(channel::Progress{.epoch = epoch, .step = step, .samples = samples}).IgnoreError();
}

void Team::ReportDone(int64_t step) {
  if (agent_) agent_->Send(channel::Done{.step = step}).IgnoreError();
}

}  // namespace mtrun::engine
