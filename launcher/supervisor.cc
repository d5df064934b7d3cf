#include "launcher/supervisor.h"

#include <unistd.h>

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/data_key.h"
#include "base/endpoint.h"
#include "base/log.h"
#include "base/own_launch.h"
#include "base/status_macros.h"
#include "launcher/workers/guardian.h"
#include "launcher/workers/hang_report.h"

namespace mtrun::launcher {
namespace {

constexpr Duration kOutputPatience = std::chrono::seconds(1);
constexpr Duration kStopPatience = std::chrono::seconds(2);
constexpr double kWatchSeconds = 6;  // outlasts two lost requests

}  // namespace

Supervisor::Supervisor(asio::io_context& io, const Options& options, const Program& program,
                       LogFiles& log_files, std::shared_ptr<StoreDoor> door, Handler handler)
    : io_(io),
      options_(options),
      program_(program),
      log_files_(log_files),
      door_(std::move(door)),
      handler_(std::move(handler)),
      hurry_at_(std::make_shared<std::optional<TimePoint>>()),
      output_(STDOUT_FILENO, STDERR_FILENO,
              [at = hurry_at_] { return StopSignalPending() || (*at && MonotonicNow() >= **at); }),
      logs_(io),
      use_(io),
      stacks_(io),
      workers_(WorkerGroup::Make(
          io_, output_,
          {[this](const WorkerExited& e) { OnExited(e); }, [this](const WorkerGone& e) { handler_.event(e); },
           [this](const ProcessSpec& spec) { return StartProcess(spec); },
           [this] { return warm_python_ ? warm_python_->pid() : -1; }})) {}

absl::Status Supervisor::Start(const std::string& timer_file, const KeptFiles& kept) {
  MT_ASSIGN_OR_RETURN(channel_, ChannelServer::Start(
                                    io_,
                                    [this](int64_t connection, int local_rank, const auto& message) {
                                      OnMessage(connection, local_rank, message);
                                    },
                                    [this] { return DataKeyText(); }));
  launches_.emplace(options_, program_, log_files_, channel_->name(), timer_file, kept);
  if (options_.warm_python && !program_.python)
    log::Warning("--warm_python has no effect: ", program_.name, " is not run by a Python interpreter");
  StartWarmPython();
  return absl::OkStatus();
}

void Supervisor::StartWarmPython() {
  if (!options_.warm_python || !program_.python) return;
  if (warm_python_ && warm_python_->IsAlive()) return;
  if (!std::exchange(warm_was_ready_, false)) return;
  absl::StatusOr<std::unique_ptr<WarmPython>> started =
      WarmPython::Start(program_.file, launches_->CommonEnvironment(), options_.preload);
  if (!started.ok()) return log::Warning("--warm_python: ", started.status().message());
  warm_python_ = *std::move(started);
  WorkerStreams streams;
  streams.local_rank = -1;
  streams.prefix = "[warm_python]:";
  streams.out = warm_python_->TakeOutput();
  streams.err = warm_python_->TakeError();
  streams.lives_on = true;
  const absl::Status added = output_.Add(std::move(streams));
  if (!added.ok()) log::Warning("--warm_python: ", added.message());
}

/// Starts a worker without waiting for the interpreter to be ready.
absl::StatusOr<Process> Supervisor::StartProcess(const ProcessSpec& spec) {
  if (warm_python_ && warm_python_->IsReady()) {
    warm_was_ready_ = true;
    absl::StatusOr<Process> forked = warm_python_->Fork(spec);
    if (forked.ok()) return forked;
    log::Warning("--warm_python: ", forked.status().message(), "; the worker starts without it");
    warm_python_.reset();
  }
  return Process::Start(spec);
}

absl::Status Supervisor::HoldFreshPort() {
  if (options_.master_port != 0) ServeStore(nullptr);  // the old store has the port
  absl::StatusOr<HeldPort> fresh = HeldPort::Open(options_.master_port, options_.port_range);
  if (!fresh.ok() && torch_store_) {  // a narrow --port_range: only the last generation's port is left
    ServeStore(nullptr);
    fresh = HeldPort::Open(options_.master_port, options_.port_range);
  }
  MT_ASSIGN_OR_RETURN(held_port_, std::move(fresh));
  door_->Hold();
  return options_.agent_store() ? held_port_.Listen() : absl::OkStatus();
}

absl::Status Supervisor::BeginGeneration(const rendezvous::Assignment& assignment, size_t member) {
  StartWarmPython();
  failures_.clear();
  first_rank_ = assignment.members[member].first_rank;
  master_port_ = assignment.master_port;
  const bool serve = member == 0 && options_.agent_store();
  if (member != 0 || !options_.hold_port) held_port_.Release();
  if (!serve) ServeStore(nullptr);
  if (!serve) return absl::OkStatus();
  // No name lookup, which can take long.
  const bool here = IsLoopback(assignment.master_address, NamesAsTheySay);
  const auto options = TcpStoreServer::OptionsFor(assignment.world_size, here);
  UniqueFd socket = held_port_.Take();
  if (!socket.valid() && torch_store_) {  // a new generation without a new offer: keep the port
    torch_store_->StartOver(options);
    return absl::OkStatus();
  }
  if (!socket.valid()) return absl::InternalError("MASTER_PORT is not held");
  MT_ASSIGN_OR_RETURN(std::unique_ptr<TcpStoreServer> store,
                      TcpStoreServer::Start(std::move(socket), options));
  ServeStore(std::move(store));
  return absl::OkStatus();
}

void Supervisor::ServeStore(std::unique_ptr<TcpStoreServer> store) {
  door_->LeadTo(store.get());
  torch_store_ = std::move(store);
}

void Supervisor::Answer(const rendezvous::StoreReply& reply) {
  if (const auto answer = store_.Answer(reply)) channel_->SendToConnection(answer->first, answer->second);
}

void Supervisor::OnMessage(int64_t connection, int local_rank, const channel::WorkerMessage& message) {
  if (const auto* progress = std::get_if<channel::Progress>(&message)) {
    if (const std::string what = channel::Implausible(*progress); !what.empty())
      return WarnOfProgress(local_rank, what);
    use_.steps().OnProgress(local_rank, *progress, MonotonicNow());
  }
  if (const auto* hello = std::get_if<channel::Hello>(&message); hello != nullptr && hello->reports)
    reporting_.insert(local_rank);
  if (const auto* times = std::get_if<channel::StepTimes>(&message))
    return use_.steps().OnTimes(local_rank, *times);
  if (!StoreForwarder::IsRequest(message)) return handler_.event(WorkerSaid{local_rank, message});
  const rendezvous::Generation current = handler_.generation();
  if (!StoreForwarder::Fits(message, current)) {
    if (const auto refusal = StoreForwarder::Refuse(message))
      channel_->SendToConnection(connection, *refusal);
  } else if (const auto question = store_.Ask(connection, message, current)) {
    handler_.ask_service(*question);
  }
}

const std::string& Supervisor::DataKeyText() {
  if (data_key_) return *data_key_;
  const absl::StatusOr<std::string> key =
      FindDataKey(OwnLaunch(CurrentEnvironment()), {options_.token_file, options_.weak_token});
  if (!key.ok() && !absl::IsNotFound(key.status()))
    log::Warning("a program of this job asked for the key of data servers: ", key.status().message());
  return data_key_.emplace(key.value_or(""));
}

void Supervisor::WarnOfProgress(int local_rank, const std::string& what) {
  if (!implausible_.insert(local_rank).second) return;
  log::Warning("local rank ", local_rank, " reports ", what, ": such progress is ignored");
}

void Supervisor::OnExited(const WorkerExited& event) {
  channel_->ReadRest(event.local_rank);  // "done" and "leaving" explain the exit
  WorkerExited told = event;
  if (options_.agent_store() && absl::StrContains(told.message, "ddress already in use"))
    absl::StrAppend(&told.message, "\n(mtrun serves PyTorch's store on MASTER_PORT ", master_port_,
                    ", as torchrun does; a program whose rank 0 listens there itself needs --store rank0)");
  if (event.exit_code != 0 || event.signal != 0) failures_.push_back(told);
  handler_.event(told);
}

void Supervisor::Perform(const StartWorkers& effect) {
  const auto launch = [&](int local_rank) {
    WorkerLaunch made = launches_->For(effect.assignment, effect.member, local_rank);
    files_[local_rank] = made.streams.files;
    use_.steps().OnStarted(local_rank);
    reporting_.erase(local_rank);
    implausible_.erase(local_rank);
    return made;
  };
  if (!workers_->empty()) {  // the other workers continue
    for (const int local_rank : effect.local_ranks) {
      channel_->Disconnect(local_rank);
      workers_->Replace(local_rank, launch(local_rank));
    }
    return;
  }
  std::vector<WorkerLaunch> launches;
  for (const int local_rank : effect.local_ranks) launches.push_back(launch(local_rank));
  workers_->Start(std::move(launches));
}

std::vector<OtherFailure> Supervisor::OtherFailures(const rendezvous::WorkerFailure& cause) const {
  std::vector<OtherFailure> others;
  for (const WorkerExited& failed : failures_) {
    const bool same = failed.pid == cause.pid && failed.local_rank == cause.local_rank;
    if (same) continue;
    others.push_back({first_rank_ + failed.local_rank, failed.local_rank, failed.exit_code, failed.signal,
                      failed.wall_time, failed.message, failed.pid, OnlyObeyed(failed)});
  }
  return others;
}

std::map<int, int64_t> Supervisor::RunningPids() const {
  std::map<int, int64_t> pids;
  for (const auto& [local_rank, files] : files_) {
    if (const int64_t pid = workers_->PidOf(local_rank); pid > 0) pids[local_rank] = pid;
  }
  return pids;
}

void Supervisor::Answer(const rendezvous::UseAsked& question) {
  rendezvous::NodeUse use{.asked = question.id};
  for (const auto& [local_rank, pid] : RunningPids()) {
    use.workers.push_back({.rank = handler_.rank_of(local_rank), .local_rank = local_rank, .pid = pid});
    if (reporting_.contains(local_rank)) channel_->SendToRank(local_rank, channel::Watch{kWatchSeconds});
  }
  use_.Measure(std::move(use), MonotonicNow(),
               [this](const rendezvous::NodeUse& measured) { handler_.ask_service(measured); });
}

void Supervisor::DumpStacks() {
  std::map<std::string, int64_t> pids;
  for (const auto& [local_rank, pid] : RunningPids()) {
    const int rank = handler_.rank_of(local_rank);
    pids[rank >= 0 ? absl::StrCat("rank_", rank) : absl::StrCat("local_rank_", local_rank)] = pid;
  }
  stacks_.Write(log_files_.folder(), std::move(pids));
}

void Supervisor::Perform(const InspectWorker& effect) {
  log::Warning(effect.text, "; ", DescribeHang("", workers_->PidOf(effect.local_rank)));
}

void Supervisor::Perform(const ReadLog& effect) {
  const auto files = files_.find(effect.local_rank);
  if (files == files_.end()) {
    return handler_.ask_service(
        rendezvous::LogPart{.id = effect.request.id, .error = "no worker of that rank runs there now"});
  }
  logs_.Read(effect.request, files->second,
             [this](const rendezvous::LogPart& part) { handler_.ask_service(part); });
}

void Supervisor::Perform(const CleanUp& effect) {
  if (stopping_) *hurry_at_ = MonotonicNow() + kStopPatience;
  if (effect.leave) {
    output_.HandOff(kOutputPatience);
    workers_->Leave();
  } else {
    output_.CloseAll(kOutputPatience);
    workers_->Clear();
  }
  channel_->DisconnectAll();
  store_.Clear();
  held_port_.Release();
}

}  // namespace mtrun::launcher
