#include "trainers/membership/job_membership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/counted.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/signal_name.h"
#include "base/status_macros.h"
#include "base/value_or.h"
#include "trainers/collectives/agent_store.h"
#include "trainers/collectives/tcp_store_bootstrap.h"
#include "trainers/membership/agent_link.h"
#include "trainers/membership/drain.h"
#include "trainers/membership/wait_reporter.h"

namespace mtrun::trainers {
namespace {

constexpr char kGenerationKey[] = "mtrun/generation";
/// How long a worker of a broken group waits until its agent knows the reason.
constexpr Duration kBrokenPatience = std::chrono::seconds(1);
constexpr Duration kTellEvery = std::chrono::milliseconds(500);
/// Interval of checks for signals, which do not wake a waiting worker; assignments do.
constexpr Duration kLookEvery = std::chrono::milliseconds(100);

/// Returns the lowest rank on this worker's node.
int FirstRankHere(const channel::Assignment& given) {
  const auto node = static_cast<size_t>(given.node_rank);
  return node < given.peers.size() ? given.peers[node].first_rank : given.rank - given.local_rank;
}

/// Returns the environment's lease, nothing if there is none.
absl::StatusOr<std::optional<LeasePage>> LeaseOf(const WorkerEnv& worker) {
  if (worker.lease < 0) return std::nullopt;
  absl::StatusOr<LeasePage> page = LeasePage::Map(worker.lease);
  if (page.ok()) return *std::move(page);
  return absl::InvalidArgumentError(
      absl::StrCat("MTRUN_LEASE: ", page.status().message(),
                   "; the program that starts this worker must leave this descriptor open"));
}

/// Returns a name that was never used before, from rank 0: workers without an agent have no generation.
absl::StatusOr<std::string> AgreeOnGeneration(collectives::Bootstrap& bootstrap, int rank) {
  if (rank == 0) {
    MT_RETURN_IF_ERROR(bootstrap.Set(kGenerationKey, absl::StrCat("1.", absl::Hex(RandomBits()))));
  }
  MT_ASSIGN_OR_RETURN(const auto values, bootstrap.Wait({kGenerationKey}));
  return values.at(kGenerationKey);
}

}  // namespace

absl::StatusOr<std::unique_ptr<JobMembership>> JobMembership::Make(const EnvironmentMap& environment,
                                                                   at::Device device,
                                                                   collectives::Protection protection,
                                                                   collectives::DeviceMaker devices) {
  MT_ASSIGN_OR_RETURN(const Assignment assignment, ReadAssignment(environment));
  collectives::Wire wire{protection, {}};
  if (const auto ports = environment.find(kPortRangeVariable); ports != environment.end()) {
    MT_ASSIGN_OR_RETURN(wire.ports, Annotate(ParsePortRange(ports->second), kPortRangeVariable));
  }
  const bool elastic = LaunchOf(environment) == Launch::kMtrun;
  return std::unique_ptr<JobMembership>(
      new JobMembership(assignment, device, std::move(devices), wire, elastic));
}

absl::Status JobMembership::Join(const EnvironmentMap& environment, std::unique_ptr<AgentConnection> agent) {
  const Launch launch = LaunchOf(environment);
  if (launch == Launch::kAlone) return absl::OkStatus();
  MT_ASSIGN_OR_RETURN(const WorkerEnv worker, ParseWorkerEnv(environment));
  if (launch == Launch::kMtrun) {
    connection_ = std::move(agent);
    MT_RETURN_IF_ERROR(ConnectAgent(worker));
    agent_->Send(channel::Ready{}).IgnoreError();  // the wait notices a lost agent
    return Regroup(absl::OkStatus());
  }
  if (assignment_.world_size == 1) return absl::OkStatus();
  const bool agent_serves = ValueOr(environment, "TORCHELASTIC_USE_AGENT_STORE") == "True";
  const absl::Status connected = ConnectByHand(worker, agent_serves);
  return !connected.ok() && wants_drain() ? absl::CancelledError(drain_wish()) : connected;
}

JobMembership::JobMembership(Assignment assignment, at::Device device, collectives::DeviceMaker devices,
                             const collectives::Wire& wire, bool elastic)
    : device_(device),
      devices_(std::move(devices)),
      wire_(wire),
      elastic_(elastic),
      assignment_(std::move(assignment)) {}

JobMembership::~JobMembership() {
  waits_.reset();
  if (agent_link_) agent_link_->OnBreak(nullptr);
}

absl::Status JobMembership::ConnectAgent(const WorkerEnv& worker) {
  MT_ASSIGN_OR_RETURN(lease_, LeaseOf(worker));
  if (!connection_) {
    MT_ASSIGN_OR_RETURN(connection_, AgentConnection::Open(worker));
  }
  agent_link_ = connection_->link();
  agent_ = connection_->client().get();
  bootstrap_ = std::make_shared<collectives::AgentStore>(connection_->client());
  waits_ = std::make_unique<WaitReporter>(
      [agent = agent_](const channel::Waiting& waiting) { agent->Send(waiting).IgnoreError(); },
      [this] { return lease_is_over(); });
  return absl::OkStatus();
}

absl::Status JobMembership::ConnectByHand(const WorkerEnv& worker, bool agent_serves) {
  if (worker.master_port == 0) {
    return absl::InvalidArgumentError(
        "RANK and WORLD_SIZE are set but MASTER_PORT is not: set MASTER_ADDR and "
        "MASTER_PORT too, or start the program with mtrun");
  }
  const auto tell = [&worker] {
    if (worker.local_rank != 0) return;
    log::Info("rank ", worker.rank, " waits for the other ", Counted(worker.world_size - 1, "worker"), " at ",
              worker.master_addr, " port ", worker.master_port);
  };
  const WaitWatch notice([] { return true; }, tell, WaitWatch::kPatience,
                         WaitWatch::WithoutThread::kUnwatched);
  MT_ASSIGN_OR_RETURN(bootstrap_, collectives::ConnectTcpStore(worker.master_addr, worker.master_port,
                                                               worker.rank, worker.world_size, agent_serves));
  const WaitWatch watch = GiveUpWhenDrained();
  collectives::GroupMember membership;
  membership.rank = worker.rank;
  membership.world_size = worker.world_size;
  membership.wire = wire_;
  MT_ASSIGN_OR_RETURN(membership.generation, AgreeOnGeneration(*bootstrap_, worker.rank));
  MT_ASSIGN_OR_RETURN(group_, ConnectGroup(membership));
  return absl::OkStatus();
}

WaitWatch JobMembership::GiveUpWhenDrained() const {
  return WaitWatch([this] { return wants_drain(); }, [this] { bootstrap_->Abort(drain_wish()); });
}

absl::StatusOr<collectives::ProcessGroup> JobMembership::ConnectGroup(
    const collectives::GroupMember& member) const {
  return Annotate(collectives::ConnectGroup(member, bootstrap_, device_, devices_),
                  "connect to the other workers");
}

absl::Status JobMembership::Regroup(const absl::Status& why) {
  if (!agent_) return why;
  absl::Status reason = why;
  while (true) {
    MT_ASSIGN_OR_RETURN(const channel::Assignment assignment, NextAssignment(reason));
    reason = Enter(assignment);
    // Only the joining worker is rejected and leaves; earlier members continue without it.
    const bool was_member = connected_at_ != TimePoint();
    if (absl::IsFailedPrecondition(reason) && was_member) reason = absl::UnavailableError(reason.message());
    if (reason.ok() || !MeansRegroup(reason)) return reason;
    log::Debug("generation ", assignment.generation.number,
               " broke while its workers connected: ", std::string(reason.message()));
  }
}

absl::StatusOr<channel::Assignment> JobMembership::NextAssignment(const absl::Status& why) {
  const TimePoint timeout = MonotonicNow() + kBrokenPatience;
  bool told = why.ok();
  // Reports a wait even if the service is slow or unreachable: this worker does not hang.
  if (!told) waits_->Watch(entered_, [since = MonotonicNow()] { return MonotonicNow() - since; });
  while (true) {
    auto next = agent_link_->Next(MonotonicNow() + kLookEvery);
    if (next.status().code() != absl::StatusCode::kDeadlineExceeded) return next;
    const bool holds_nothing = entered_.number == 0;
    if (holds_nothing && wants_drain()) return absl::CancelledError(drain_wish());
    if (MonotonicNow() < timeout) continue;
    // A drained worker does not wait for a membership that it would leave again.
    if (wants_drain()) return absl::CancelledError(drain_wish());
    // A worker's death reaches the sockets here before its agent has notified the service. If nothing has
    // followed by now, the group itself broke, and only its members know.
    if (!std::exchange(told, true) && !agent_link_->IsOver()) {
      agent_->Send(channel::Broken{entered_, std::string(why.message())}).IgnoreError();
    }
  }
}

absl::Status JobMembership::Enter(const channel::Assignment& given) {
  MT_RETURN_IF_ERROR(CheckFits(given.world_size));
  // From here on a break ends the bootstrap's waits. The old group goes before its successor needs memory.
  agent_->Enter(given.generation);
  agent_->ResetAbort();
  entered_ = given.generation;
  // A lapse is remembered until a generation has connected: those that break before have leases of their own.
  lease_lapsed_ = (leased_ != 0 && lease_is_over()) || (!connected_ && lease_lapsed_);
  connected_ = false;
  leased_ = entered_.id;
  assigned_at_ = MonotonicNow();
  agent_link_->OnBreak([this](const std::string& reason) { agent_->Abort(reason); });
  waits_->Watch(entered_, [since = assigned_at_] { return MonotonicNow() - since; });
  group_.reset();
  std::vector<MemberNode> members;
  for (const channel::Peer& peer : given.peers) members.push_back({peer.host, peer.workers});
  assignment_ = {.rank = given.rank,
                 .world_size = given.world_size,
                 .local_rank = given.local_rank,
                 .local_world_size = given.local_world_size,
                 .first_on_node = given.rank == FirstRankHere(given),
                 .nodes = std::max<int>(1, static_cast<int>(given.peers.size())),
                 .members = std::move(members)};
  generation_ = given.generation.number;
  if (given.world_size > 1) {
    collectives::GroupMember membership;
    membership.rank = given.rank;
    membership.world_size = given.world_size;
    membership.generation = channel::ToText(given.generation);
    membership.wire = wire_;
    membership.unreached = [this](int rank) {
      const double waited = ToSeconds(MonotonicNow() - assigned_at_);
      agent_->Send(channel::Waiting{entered_, waited, rank}).IgnoreError();
    };
    const WaitWatch watch = GiveUpWhenDrained();
    MT_ASSIGN_OR_RETURN(group_, ConnectGroup(membership));
  }
  agent_link_->OnBreak([group = group_](const std::string& reason) {
    if (group) collectives::AbortGroup(group, reason);
  });
  connected_at_ = MonotonicNow();
  told_progress_.reset();  // report a generation's first step at once
  if (group_) {
    waits_->Watch(entered_, [group = group_] { return collectives::WaitingFor(group); });
  } else {
    waits_->Watch(entered_, nullptr);
  }
  connected_ = true;
  agent_->Send(channel::Ready{given.generation}).IgnoreError();
  return absl::OkStatus();
}

bool JobMembership::wants_drain() const {
  return DrainSignal() != 0 || (agent_link_ && agent_link_->drains());
}

std::string JobMembership::drain_wish() const {
  if (const int signal = DrainSignal(); signal != 0) return absl::StrCat("received ", SignalName(signal));
  return agent_link_ ? agent_link_->drain_wish() : "";
}

std::optional<TimePoint> JobMembership::told_to_go_at() const {
  return Earlier(DrainSignalAt(), agent_link_ ? agent_link_->drains_since() : std::nullopt);
}

bool JobMembership::work_is_done() const { return agent_link_ && agent_link_->work_is_done(); }

bool JobMembership::others_continue() const { return agent_link_ && agent_link_->others_continue(); }

bool JobMembership::next_is_here() const { return agent_link_ && agent_link_->HasNext(); }

bool JobMembership::wants_regroup() const { return agent_link_ && agent_link_->wants_regroup(); }

bool JobMembership::generation_is_over() const { return agent_link_ && agent_link_->IsOver(); }

bool JobMembership::lease_is_over() const { return lease_ && lease_->Over(leased_, BootNow()); }

bool JobMembership::outside_lease_is_over() const {
  return lease_ && lease_->OverOutside(leased_, BootNow());
}

void JobMembership::ReportProgress(int64_t epoch, int64_t step, int64_t samples) {
  if (!agent_) return;
  const TimePoint now = MonotonicNow();
  if (told_progress_ && now - *told_progress_ < kTellEvery) return;
  told_progress_ = now;
  // Errors are ignored: the link reports a lost agent.
  agent_->Send(channel::Progress{.epoch = epoch, .step = step, .samples = samples}).IgnoreError();
}

void JobMembership::ReportTimes(const channel::StepTimes& times) {
  if (!agent_) return;
  const TimePoint now = MonotonicNow();
  const bool watched = now < agent_link_->watched_until();
  if (const auto mean = times_.Add(times, watched, now)) agent_->Send(*mean).IgnoreError();
}

absl::Status JobMembership::ReportDone(int64_t step) {
  if (!agent_) return absl::OkStatus();
  if (!agent_->Send(channel::Done{step, entered_}).ok())
    return absl::OkStatus();  // a lost agent needs no result any more
  while (!wants_drain()) {
    const absl::Status end = agent_link_->WaitForEnd(MonotonicNow() + kLookEvery);
    if (!absl::IsDeadlineExceeded(end)) return end;
  }
  return absl::OkStatus();
}

void JobMembership::ReportLeaving(std::string_view why) {
  if (agent_) agent_->Send(channel::Leaving{std::string(why)}).IgnoreError();
}

}  // namespace mtrun::trainers
