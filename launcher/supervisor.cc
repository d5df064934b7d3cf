#include "launcher/supervisor.h"

#include <unistd.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "launcher/workers/hang_report.h"

namespace mtrun::launcher {
namespace {

constexpr Duration kOutputPatience = std::chrono::seconds(1);
constexpr double kWatchSeconds = 6;  // over two questions that are lost

}  // namespace

Supervisor::Supervisor(asio::io_context& io, const Options& options, const Program& program,
                       LogFiles& log_files, Handler handler)
    : io_(io),
      options_(options),
      program_(program),
      log_files_(log_files),
      handler_(std::move(handler)),
      output_(STDOUT_FILENO, STDERR_FILENO),
      logs_(io),
      use_(io),
      stacks_(io),
      workers_(WorkerGroup::Make(io_, output_,
                                 {[this](const WorkerExited& e) { OnExited(e); },
                                  [this](const WorkerGone& e) { handler_.event(e); }})) {}

absl::Status Supervisor::Start(const std::string& timer_file, const KeptFiles& kept) {
  MT_ASSIGN_OR_RETURN(
      channel_, ChannelServer::Start(io_, [this](int64_t connection, int local_rank, const auto& message) {
        OnMessage(connection, local_rank, message);
      }));
  launches_.emplace(options_, program_, log_files_, channel_->name(), timer_file, kept);
  return absl::OkStatus();
}

absl::Status Supervisor::HoldFreshPort() {
  MT_ASSIGN_OR_RETURN(held_port_, HeldPort::Open(options_.master_port, options_.port_range));
  return absl::OkStatus();
}

void Supervisor::Answer(const rendezvous::StoreReply& reply) {
  if (const auto answer = store_.Answer(reply)) channel_->SendToConnection(answer->first, answer->second);
}

void Supervisor::OnMessage(int64_t connection, int local_rank, const channel::WorkerMessage& message) {
  if (const auto* progress = std::get_if<channel::Progress>(&message))
    use_.steps().OnProgress(local_rank, *progress, MonotonicNow());
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

void Supervisor::OnExited(const WorkerExited& event) {
  channel_->ReadRest(event.local_rank);  // "done" and "leaving" say what the exit means
  handler_.event(event);
}

void Supervisor::Perform(const StartWorkers& effect) {
  if (!effect.warm_up && (effect.member != 0 || !options_.hold_port)) held_port_.Release();
  const auto launch = [&](int local_rank) {
    WorkerLaunch made = launches_->For(effect.assignment, effect.member, local_rank);
    files_[local_rank] = made.files;
    use_.steps().OnStarted(local_rank);
    reporting_.erase(local_rank);
    return made;
  };
  if (!workers_->empty()) {  // the others live on
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

void Supervisor::Perform(const CleanUp&) {
  output_.CloseAll(kOutputPatience);
  workers_->Clear();
  channel_->DisconnectAll();
  store_.Clear();
  held_port_.Release();
}

}  // namespace mtrun::launcher
