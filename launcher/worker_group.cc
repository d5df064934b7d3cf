#include "launcher/worker_group.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <asio.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "launcher/error_file.h"
#include "launcher/process_tree.h"

namespace mtrun::launcher {
namespace {

constexpr Duration kOutputPatience = std::chrono::milliseconds(300);
constexpr int kCannotExecute = 127;  // as shells report it

/// What the worker said about its end: its error file, else the last lines of its standard error.
std::string LastWords(const WorkerFiles& files, const std::string& tail) {
  if (files.error.empty()) return tail;
  const absl::StatusOr<std::string> text = ReadFile(files.error);
  if (!text.ok()) return tail;
  const absl::StatusOr<ErrorRecord> record = ParseErrorFile(*text);
  if (!record.ok()) return tail;
  return record->callstack.empty() ? record->message : absl::StrCat(record->message, "\n", record->callstack);
}

class Group : public WorkerGroup {
 public:
  Group(asio::io_context& io, OutputMux& output, Handler handler)
      : io_(io), output_(output), handler_(std::move(handler)) {}
  ~Group() override { Clear(); }

  void Start(std::vector<WorkerLaunch> launches) override {
    MT_CHECK(workers_.empty()) << "the last generation's workers were not cleared";
    for (WorkerLaunch& launch : launches) {
      const int local_rank = static_cast<int>(workers_.size());
      workers_.push_back(std::make_unique<Worker>());
      Worker& worker = *workers_.back();
      worker.files = launch.files;
      const absl::Status started = StartOne(worker, launch);
      if (!started.ok()) ReportNotStarted(local_rank, started);
    }
  }

  void Signal(int signal) override {
    for (const auto& worker : workers_) {
      if (worker->process && worker->life != Life::kGone) worker->process->Signal(signal);
    }
  }

  void OnChildSignal() override {
    const std::vector<ProcessInfo> processes = ListProcesses();
    for (const ProcessInfo& process : processes) {
      if (process.parent == getpid() && process.state == 'Z' && !IsLeader(process.pid))
        waitpid(process.pid, nullptr, WNOHANG);
    }
    LookForExits();
  }

  void Clear() override {
    ++generation_;
    workers_.clear();
    // What left its worker's session has no group to kill. What a dying process starts meanwhile is the
    // guardian's.
    if (KillDescendants() > 0) KillDescendants();
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
  }

 private:
  enum class Life { kRunning, kExited, kGone };
  struct Worker {
    std::optional<Process> process;
    std::optional<asio::posix::stream_descriptor> watch;
    WorkerFiles files;
    Life life = Life::kRunning;
  };

  absl::Status StartOne(Worker& worker, WorkerLaunch& launch) {
    MT_ASSIGN_OR_RETURN(Process process, Process::Start(launch.spec));
    launch.streams.out = process.TakeOutput();
    launch.streams.err = process.TakeError();
    worker.process.emplace(std::move(process));
    const absl::Status added = output_.Add(std::move(launch.streams));
    if (!added.ok()) {
      worker.process.reset();
      return added;
    }
    worker.watch.emplace(io_, fcntl(worker.process->pidfd(), F_DUPFD_CLOEXEC, 0));
    worker.watch->async_wait(asio::posix::stream_descriptor::wait_read, [this](std::error_code error) {
      if (!error) LookForExits();
    });
    return absl::OkStatus();
  }

  void ReportNotStarted(int local_rank, const absl::Status& why) {
    workers_[static_cast<size_t>(local_rank)]->life = Life::kGone;
    WorkerExited event;
    event.local_rank = local_rank;
    event.exit_code = kCannotExecute;
    event.message = absl::StrCat("could not be started: ", why.message());
    event.wall_time = WallClockText();
    Post(event, true);
  }

  /// Several may have ended by the time the first is noticed: one killed by a signal is the likelier cause of
  /// the others.
  void LookForExits() {
    std::vector<std::pair<int, ExitStatus>> ended;
    for (size_t i = 0; i < workers_.size(); ++i) {
      if (workers_[i]->life != Life::kRunning) continue;
      if (const auto status = workers_[i]->process->Poll()) ended.emplace_back(static_cast<int>(i), *status);
    }
    std::stable_partition(ended.begin(), ended.end(),
                          [](const auto& item) { return item.second.signal != 0; });
    for (const auto& [local_rank, status] : ended) ReportExit(local_rank, status);
    LookForGone();
  }

  void ReportExit(int local_rank, const ExitStatus& status) {
    Worker& worker = *workers_[static_cast<size_t>(local_rank)];
    worker.life = Life::kExited;
    WorkerExited event;
    event.local_rank = local_rank;
    event.pid = worker.process->pid();
    event.exit_code = status.code;
    event.signal = status.signal;
    event.log_file = worker.files.err;
    event.wall_time = WallClockText();
    if (status.code != 0 || status.signal != 0) {
      event.message = LastWords(worker.files, output_.TailOfError(local_rank, kOutputPatience));
    }
    Post(event, false);
  }

  void LookForGone() {
    const auto waits = [](const auto& worker) { return worker->life == Life::kExited; };
    if (std::none_of(workers_.begin(), workers_.end(), waits)) return;
    const std::vector<ProcessInfo> processes = ListProcesses();
    for (size_t i = 0; i < workers_.size(); ++i) {
      Worker& worker = *workers_[i];
      if (worker.life != Life::kExited || GroupIsAlive(worker.process->pid(), processes)) continue;
      worker.life = Life::kGone;
      asio::post(io_, [this, generation = generation_, i] {
        if (generation == generation_) handler_.gone({static_cast<int>(i)});
      });
    }
  }

  void Post(const WorkerExited& event, bool gone_too) {
    asio::post(io_, [this, generation = generation_, event, gone_too] {
      if (generation == generation_) handler_.exited(event);
      if (generation == generation_ && gone_too) handler_.gone({event.local_rank});
    });
  }

  bool IsLeader(pid_t pid) const {
    return std::any_of(workers_.begin(), workers_.end(),
                       [&](const auto& worker) { return worker->process && worker->process->pid() == pid; });
  }

  asio::io_context& io_;
  OutputMux& output_;
  const Handler handler_;
  std::vector<std::unique_ptr<Worker>> workers_;
  int64_t generation_ = 0;  // what was posted for an earlier one is dropped
};

}  // namespace

std::unique_ptr<WorkerGroup> WorkerGroup::Make(asio::io_context& io, OutputMux& output, Handler handler) {
  return std::make_unique<Group>(io, output, std::move(handler));
}

}  // namespace mtrun::launcher
