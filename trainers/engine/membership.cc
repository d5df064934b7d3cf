#include "trainers/engine/membership.h"

#include <unistd.h>
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "trainers/collectives/agent_store.h"
#include "trainers/collectives/tcp_store_bootstrap.h"
#include "trainers/engine/drain.h"
#include "trainers/engine/lifeline.h"
#include "trainers/engine/wait_reporter.h"

namespace mtrun::engine {
namespace {

constexpr char kGenerationKey[] = "mtrun/generation";
/// How long a broken group waits for its agent to know why.
constexpr Duration kBrokenPatience = std::chrono::seconds(1);
constexpr Duration kTellEvery = std::chrono::milliseconds(500);
/// Assignments wake a waiting worker; this is for signals, which wake nobody.
constexpr Duration kLookEvery = std::chrono::milliseconds(100);

bool Has(const EnvironmentMap& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found != environment.end() && !found->second.empty();
}

/// The lowest rank on this worker's node.
int FirstRankHere(const channel::Assignment& given) {
  const auto node = static_cast<size_t>(given.node_rank);
  return node < given.peers.size() ? given.peers[node].first_rank : given.rank - given.local_rank;
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

bool MeansRegroup(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable || status.code() == absl::StatusCode::kAborted;
}

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
                    .first_on_node = worker.local_rank == 0,
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

absl::StatusOr<std::unique_ptr<Team>> Team::Join(const EnvironmentMap& environment, at::Device device) {
  std::unique_ptr<Team> team(new Team(device));
  MT_ASSIGN_OR_RETURN(team->assignment_, ReadAssignment(environment));
  const Launch launch = LaunchOf(environment);
  if (launch == Launch::kAlone) return team;
  MT_ASSIGN_OR_RETURN(const WorkerEnv worker, ParseWorkerEnv(environment));
  if (launch == Launch::kMtrun) {
    MT_RETURN_IF_ERROR(team->ConnectAgent(worker));
    team->agent_->Send(channel::Ready{}).IgnoreError();  // a lost agent is heard of while waiting
    MT_RETURN_IF_ERROR(team->Regroup(absl::OkStatus()));
    return team;
  }
  if (team->assignment_.world_size == 1) return team;
  const auto agent_store = environment.find("TORCHELASTIC_USE_AGENT_STORE");
  const bool agent_serves = agent_store != environment.end() && agent_store->second == "True";
  MT_RETURN_IF_ERROR(team->ConnectByHand(worker, agent_serves));
  return team;
}

Team::Team(at::Device device) : device_(device) {}

Team::~Team() {
  waits_.reset();
  if (lifeline_) lifeline_->OnBreak(nullptr);
}

absl::Status Team::ConnectAgent(const WorkerEnv& worker) {
  lifeline_ = std::make_shared<Lifeline>();
  WorkerClient::Handler handler;
  handler.message = [lifeline = lifeline_](const channel::AgentMessage& message) { lifeline->Hear(message); };
  handler.closed = [lifeline = lifeline_](absl::Status status) {
    lifeline->Lose(absl::StrCat("the agent of this node is gone: ", status.message()));
  };
  channel::Hello hello;
  hello.pid = getpid();
  hello.local_rank = worker.local_rank;
  hello.cooperative = true;
  auto agent = WorkerClient::Connect(worker.socket, hello, std::move(handler));
  if (!agent.ok()) return Annotate(agent.status(), absl::StrCat("connect to mtrun at ", worker.socket));
  agent_ = *std::move(agent);
  bootstrap_ = std::make_shared<collectives::AgentStore>(*agent_);
  waits_ = std::make_unique<WaitReporter>(
      [agent = agent_.get()](const channel::Waiting& waiting) { agent->Send(waiting).IgnoreError(); });
  return absl::OkStatus();
}

absl::Status Team::ConnectByHand(const WorkerEnv& worker, bool agent_serves) {
  if (worker.master_port == 0) {
    return absl::InvalidArgumentError(
        "RANK and WORLD_SIZE are set but MASTER_PORT is not: set MASTER_ADDR and "
        "MASTER_PORT too, or start the program with mtrun");
  }
  MT_ASSIGN_OR_RETURN(bootstrap_, collectives::ConnectTcpStore(worker.master_addr, worker.master_port,
                                                               worker.rank, worker.world_size, agent_serves));
  collectives::Membership membership;
  membership.rank = worker.rank;
  membership.world_size = worker.world_size;
  MT_ASSIGN_OR_RETURN(membership.generation, AgreeOnGeneration(*bootstrap_, worker.rank));
  auto group = collectives::ConnectGroup(membership, bootstrap_, device_);
  if (!group.ok()) return Annotate(group.status(), "connect to the other workers");
  group_ = *std::move(group);
  return absl::OkStatus();
}

absl::Status Team::Regroup(const absl::Status& why) {
  if (!agent_) return why;
  absl::Status reason = why;
  while (true) {
    MT_ASSIGN_OR_RETURN(const channel::Assignment assignment, NextAssignment(reason));
    reason = Enter(assignment);
    if (reason.ok() || !MeansRegroup(reason)) return reason;
    log::Info("generation ", assignment.generation.number,
              " broke while its workers connected: ", std::string(reason.message()));
  }
}

absl::StatusOr<channel::Assignment> Team::NextAssignment(const absl::Status& why) {
  const TimePoint patience = MonotonicNow() + kBrokenPatience;
  bool told = why.ok();
  // However long the service takes, or is away: this worker does not stand still.
  if (!told) waits_->Watch(entered_, [since = MonotonicNow()] { return MonotonicNow() - since; });
  while (true) {
    auto next = lifeline_->Next(MonotonicNow() + kLookEvery);
    if (next.status().code() != absl::StatusCode::kDeadlineExceeded) return next;
    const bool carries_nothing = entered_.number == 0;
    if (carries_nothing && wants_drain()) return absl::CancelledError(drain_wish());
    if (MonotonicNow() < patience) continue;
    // Who is to go does not wait for a membership that it would leave again.
    if (wants_drain()) return absl::CancelledError(drain_wish());
    // A death reaches this worker's sockets before its agent has told the service. Only when nothing came of
    // it is the group itself what broke, and nobody but its members knows.
    if (!std::exchange(told, true) && !lifeline_->IsOver()) {
      agent_->Send(channel::Broken{entered_, std::string(why.message())}).IgnoreError();
    }
  }
}

absl::Status Team::Enter(const channel::Assignment& given) {
  // From here on a break ends the bootstrap's waits; the old group goes before its successor needs memory.
  agent_->Enter(given.generation);
  agent_->ResetAbort();
  entered_ = given.generation;
  assigned_at_ = MonotonicNow();
  lifeline_->OnBreak([this](const std::string& reason) { agent_->Abort(reason); });
  waits_->Watch(entered_, [since = assigned_at_] { return MonotonicNow() - since; });
  group_.reset();
  assignment_ = {.rank = given.rank,
                 .world_size = given.world_size,
                 .local_rank = given.local_rank,
                 .local_world_size = given.local_world_size,
                 .first_on_node = given.rank == FirstRankHere(given),
                 .nodes = std::max<int>(1, static_cast<int>(given.peers.size()))};
  generation_ = given.generation.number;
  if (given.world_size > 1) {
    collectives::Membership membership;
    membership.rank = given.rank;
    membership.world_size = given.world_size;
    membership.generation = channel::ToText(given.generation);
    auto group = collectives::ConnectGroup(membership, bootstrap_, device_);
    if (!group.ok()) return Annotate(group.status(), "connect to the other workers");
    group_ = *std::move(group);
  }
  lifeline_->OnBreak([group = group_](const std::string& reason) {
    if (group) collectives::AbortGroup(group, reason);
  });
  connected_at_ = MonotonicNow();
  if (group_ && device_.is_cuda()) {
    // Who waits for NCCL looks like who computes. Only a process that stands still as a whole is silent then.
    waits_->Watch(entered_, [] { return std::chrono::seconds(1); });
  } else if (group_) {
    waits_->Watch(entered_, [group = group_] { return collectives::WaitingFor(group); });
  } else {
    waits_->Watch(entered_, nullptr);
  }
  agent_->Send(channel::Ready{given.generation}).IgnoreError();
  return absl::OkStatus();
}

bool Team::wants_drain() const { return DrainSignal() != 0 || (lifeline_ && lifeline_->drains()); }

std::string Team::drain_wish() const {
  if (const int signal = DrainSignal(); signal != 0)
    return absl::StrCat("received ", DrainSignalName(signal));
  return lifeline_ ? lifeline_->drain_wish() : "";
}

bool Team::wants_regroup() const { return lifeline_ && lifeline_->wants_regroup(); }

bool Team::generation_is_over() const { return lifeline_ && lifeline_->IsOver(); }

void Team::ReportProgress(int64_t epoch, int64_t step, int64_t samples) {
  if (!agent_) return;
  const TimePoint now = MonotonicNow();
  if (told_progress_ && now - *told_progress_ < kTellEvery) return;
  told_progress_ = now;
  // Nothing to do about a failure here: a lost agent reports itself through the lifeline.
  agent_->Send(channel::Progress{.epoch = epoch, .step = step, .samples = samples}).IgnoreError();
}

absl::Status Team::ReportDone(int64_t step) {
  if (!agent_) return absl::OkStatus();
  if (!agent_->Send(channel::Done{step, entered_}).ok())
    return absl::OkStatus();  // it needs no result any more
  while (!wants_drain()) {
    const absl::Status end = lifeline_->WaitForEnd(MonotonicNow() + kLookEvery);
    if (!absl::IsDeadlineExceeded(end)) return end;
  }
  return absl::OkStatus();
}

void Team::ReportLeaving(std::string_view why) {
  if (agent_) agent_->Send(channel::Leaving{std::string(why)}).IgnoreError();
}

}  // namespace mtrun::engine
