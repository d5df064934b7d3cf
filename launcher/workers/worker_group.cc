#include "launcher/workers/worker_group.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <asio.hpp>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "launcher/workers/process_tree.h"
#include "launcher/workers/record_ladder.h"
#include "launcher/workers/worker_record.h"
#include "rendezvous/wire/types.h"

namespace mtrun::launcher {
namespace {

constexpr Duration kOutputPatience = std::chrono::milliseconds(300);
// A worker's death by a signal may be seen this much later than it happened.
constexpr int64_t kSignalMarginNs = 1'000'000'000;
constexpr int kGroupKillRounds = 20;
constexpr int kPythonFailedStatus = 1;  // Python's status for an uncaught exception
/// For a worker that printed a traceback and still runs: it is exiting, or has caught the exception.
constexpr Duration kTracebackPatience = std::chrono::seconds(1);
// An error that is older than the first exit by more than this was handled: its worker survived it. Programs
// log caught exceptions in the format of Python's last one. A record is rarer, and its worker may first join
// threads and free GPUs. The same applies to a worker that wrote nothing after its traceback.
constexpr int64_t kFreshTracebackNs = 3'000'000'000, kFreshErrorNs = 30'000'000'000;

/// Returns the exit status of a worker that was not started: the shell's status if a retry is useless,
/// otherwise 1 (out of descriptors, processes or memory).
int StatusOfNotStarted(const absl::Status& why) {
  if (absl::IsNotFound(why)) return rendezvous::kNoSuchProgramStatus;
  const bool never = absl::IsPermissionDenied(why) || absl::IsFailedPrecondition(why);
  return never ? rendezvous::kNotExecutableStatus : 1;
}

class Group : public WorkerGroup {
 public:
  Group(asio::io_context& io, OutputMux& output, Handler handler)
      : io_(io),
        output_(output),
        handler_(std::move(handler)),
        ladder_(handler_.record_patience),
        hold_(io) {}
  ~Group() override { left_ ? Forget() : Clear(); }

  bool empty() const override { return workers_.empty(); }

  void Start(std::vector<WorkerLaunch> launches) override {
    MT_CHECK(workers_.empty()) << "the last generation's workers were not cleared";
    for (WorkerLaunch& launch : launches) {
      workers_.push_back(nullptr);
      Fill(workers_.size() - 1, launch);
    }
  }

  void Replace(int local_rank, WorkerLaunch launch) override {
    const auto place = static_cast<size_t>(local_rank);
    MT_CHECK(place < workers_.size() && workers_[place]->life != Life::kRunning) << local_rank << " is alive";
    Fill(place, launch);
  }

  int64_t PidOf(int local_rank) const override {
    const auto place = static_cast<size_t>(local_rank);
    const bool alive =
        place < workers_.size() && workers_[place]->process && workers_[place]->life == Life::kRunning;
    return alive ? workers_[place]->process->pid() : -1;
  }

  void Signal(int signal) override {
    for (size_t i = 0; i < workers_.size(); ++i) SignalOne(static_cast<int>(i), signal);
  }

  void SignalOne(int local_rank, int signal) override {
    const Worker& worker = *workers_.at(static_cast<size_t>(local_rank));
    if (worker.process && worker.life != Life::kGone) worker.process->Signal(signal);
  }

  void OnChildSignal() override {
    LookForExits();
    ReapOrphans();
  }

  void Clear() override {
    Forget();
    // Processes that left their worker's session have no group to kill. A process that a dying one starts is
    // killed in the next round, or by the guardian.
    for (int round = 0; round < kGroupKillRounds && KillDescendants(getpid(), {}, handler_.helper()) > 0;
         ++round) {
    }
    ReapOrphans();
  }

  void Leave() override {
    for (const auto& worker : workers_)
      if (worker->process && worker->process->Poll()) worker->process->Leave();
    Forget();
    left_ = true;
  }

 private:
  enum class Life { kRunning, kEnded, kExited, kGone };  // kEnded: not reported yet
  /// A worker that exited with an error that is not reported yet.
  struct Failed {
    int local_rank = 0;
    ExitStatus status;
    int64_t ended_at = 0;
    bool recorded = false;
    std::optional<int64_t> error_at = {};
    /// Returns the time to sort by if no error is known. After a signal, which Python cannot catch, it
    /// precedes the errors that others recorded at the time. A plain exit says least and comes last.
    int64_t since() const {
      if (error_at) return *error_at;
      return status.signal != 0 ? ended_at - kSignalMarginNs : std::numeric_limits<int64_t>::max();
    }
  };
  struct Worker {
    std::optional<Process> process;
    WorkerFiles files;
    Life life = Life::kRunning;
    bool given_up = false;  // its exit is not waited for
    int64_t serial = 0;     // drops events posted for an earlier worker here
  };

  void ReapOrphans() {
    for (const ProcessInfo& process : ListProcesses()) {
      const bool ended = process.parent == getpid() && process.state == 'Z';
      if (ended && !IsLeader(process.pid) && process.pid != handler_.helper())
        waitpid(process.pid, nullptr, WNOHANG);
    }
  }

  void Forget() {
    EndWait();
    failed_.clear();
    workers_.clear();
  }

  void EndWait() {
    hold_.cancel();
    holding_ = waited_ = false;
    ladder_ = RecordLadder(handler_.record_patience);
  }

  /// Looks again at `when`, unless the wait ends before; `waited`: for long enough for a printed traceback.
  void LookAgain(TimePoint when, bool waited) {
    if (std::exchange(holding_, true)) return;
    hold_.expires_at(when);
    hold_.async_wait([this, waited](std::error_code error) {
      if (error) return;
      holding_ = false;
      waited_ = waited_ || waited;
      LookForExits();  // also checks groups: no other event may follow
    });
  }

  void Fill(size_t place, WorkerLaunch& launch) {
    left_ = false;
    workers_[place] = std::make_unique<Worker>();
    Worker& worker = *workers_[place];
    worker.serial = ++last_serial_;
    worker.files = launch.streams.files;
    const absl::Status started = StartOne(worker, launch);
    if (!started.ok()) ReportNotStarted(static_cast<int>(place), started);
  }

  bool IsCurrent(size_t place, int64_t serial) const {
    return place < workers_.size() && workers_[place]->serial == serial;
  }

  absl::Status StartOne(Worker& worker, WorkerLaunch& launch) {
    MT_ASSIGN_OR_RETURN(Process process, handler_.start(launch.spec));
    launch.streams.out = process.TakeOutput();
    launch.streams.err = process.TakeError();
    worker.process.emplace(std::move(process));
    const absl::Status ready = output_.Add(std::move(launch.streams));
    if (!ready.ok()) worker.process.reset();
    return ready;
  }

  void ReportNotStarted(int local_rank, const absl::Status& why) {
    workers_[static_cast<size_t>(local_rank)]->life = Life::kGone;
    WorkerExited event;
    event.local_rank = local_rank;
    event.exit_code = StatusOfNotStarted(why);
    event.message = absl::StrCat("could not be started: ", why.message());
    event.failed_at_ns = WallClockNs();
    event.wall_time = WallClockText(event.failed_at_ns);
    Post(event, true);
  }

  void LookForExits() {
    for (size_t i = 0; i < workers_.size(); ++i) {
      Worker& worker = *workers_[i];
      if (worker.life != Life::kRunning) continue;
      const auto status = worker.process->Poll();
      if (!status) continue;
      worker.life = Life::kEnded;
      const int local_rank = static_cast<int>(i);
      if (status->code == 0 && status->signal == 0) {
        ReportExit({local_rank, *status, WallClockNs()});
      } else {
        failed_.push_back(FailureOf(local_rank, *status));
      }
    }
    ReportFailures();
    LookForGone();
  }

  /// Reports the failures in order. The earliest error is the cause; its worker may still be exiting.
  void ReportFailures() {
    if (failed_.empty()) return;
    std::ranges::stable_sort(failed_, [](const Failed& a, const Failed& b) { return a.since() < b.since(); });
    if (AwaitsEarlierErrors()) return;
    // Waits without stopping a worker: one that has caught its error survives.
    if (!waited_ && PrintedEarlierError())
      return LookAgain(MonotonicNow() + kTracebackPatience, /*waited=*/true);
    EndWait();
    for (const Failed& failed : std::exchange(failed_, {})) ReportExit(failed);
  }

  /// Returns whether to wait (limited by ladder_) for running workers that have recorded an earlier error.
  bool AwaitsEarlierErrors() {
    const std::vector<Worker*> earlier = WithEarlierErrors();
    if (earlier.empty()) return false;
    const RecordLadder::Rung due = ladder_.At(MonotonicNow());
    for (Worker* worker : earlier) {
      if (due == RecordLadder::Rung::kTerminate) worker->process->Signal(SIGTERM);
      if (due == RecordLadder::Rung::kKill) worker->process->Signal(SIGKILL);
      if (due != RecordLadder::Rung::kReport) continue;
      worker->given_up = true;
      log::Warning("worker ", worker->process->pid(), " recorded an error and cannot be killed: ",
                   "the failures of the other workers are reported without its own");
    }
    if (due == RecordLadder::Rung::kReport) return false;
    LookAgain(*ladder_.deadline(), /*waited=*/false);
    return true;
  }

  /// Returns the failure with the time of its error: when the worker recorded it, or when it printed Python's
  /// final traceback. Peers that fail because its connections close are later than both, but may exit sooner.
  Failed FailureOf(int local_rank, const ExitStatus& status) {
    Failed failed{local_rank, status, WallClockNs()};
    failed.error_at = IfFresh(RecordedAt(workers_[static_cast<size_t>(local_rank)]->files), kFreshErrorNs);
    failed.recorded = failed.error_at.has_value();
    if (failed.recorded || status.signal != 0 || status.code != kPythonFailedStatus) return failed;
    failed.error_at = PrintedAt(local_rank, kOutputPatience);
    return failed;
  }

  /// Returns when it printed the traceback that may be the cause of its exit.
  std::optional<int64_t> PrintedAt(int local_rank, Duration timeout) {
    const auto printed = output_.LastTraceback(local_rank, timeout);
    if (!printed) return std::nullopt;
    return IfFresh(printed->at_ns, printed->is_last ? kFreshErrorNs : kFreshTracebackNs);
  }

  /// Returns `at` unless it is more than `fresh_ns` older than the first unreported exit. That exit stays the
  /// reference while others are waited for.
  std::optional<int64_t> IfFresh(std::optional<int64_t> at, int64_t fresh_ns) const {
    int64_t first_end = WallClockNs();
    for (const Failed& failed : failed_) first_end = std::min(first_end, failed.ended_at);
    return at && *at > first_end - fresh_ns ? at : std::nullopt;
  }

  /// Returns whether a running worker has printed a traceback before the first failed worker's error.
  bool PrintedEarlierError() {
    const int64_t first = failed_.front().since();
    Duration timeout = kOutputPatience;  // used once: all earlier output has arrived by then
    for (size_t i = 0; i < workers_.size(); ++i) {
      if (workers_[i]->life != Life::kRunning) continue;
      const auto printed = PrintedAt(static_cast<int>(i), std::exchange(timeout, Duration::zero()));
      if (printed && *printed < first) return true;
    }
    return false;
  }

  /// Returns the workers that still run and recorded an error before the first failure.
  std::vector<Worker*> WithEarlierErrors() const {
    std::vector<Worker*> found;
    for (const auto& worker : workers_) {
      if (failed_.empty() || worker->life != Life::kRunning || worker->given_up) continue;
      const std::optional<int64_t> recorded_at = IfFresh(RecordedAt(worker->files), kFreshErrorNs);
      if (recorded_at && *recorded_at < failed_.front().since()) found.push_back(worker.get());
    }
    return found;
  }

  void ReportExit(const Failed& ended) {
    Worker& worker = *workers_[static_cast<size_t>(ended.local_rank)];
    worker.life = Life::kExited;
    WorkerExited event;
    event.local_rank = ended.local_rank;
    event.pid = worker.process->pid();
    event.exit_code = ended.status.code;
    event.signal = ended.status.signal;
    event.log_file = worker.files.err;
    event.failed_at_ns = ended.error_at.value_or(ended.ended_at);
    event.wall_time = WallClockText(event.failed_at_ns);
    event.recorded = ended.recorded;
    if (event.exit_code != 0 || event.signal != 0) {
      const bool handled = !ended.recorded && RecordedAt(worker.files).has_value();
      event.message =
          FailureMessage(worker.files, output_.TailOfError(ended.local_rank, kOutputPatience), handled);
    }
    Post(event, false);
  }

  void LookForGone() {
    const auto waits = [](const auto& worker) { return worker->life == Life::kExited; };
    if (std::ranges::none_of(workers_, waits)) return;
    const std::vector<ProcessInfo> processes = ListProcesses();
    for (size_t i = 0; i < workers_.size(); ++i) {
      Worker& worker = *workers_[i];
      if (worker.life != Life::kExited || GroupIsAlive(worker.process->pid(), processes)) continue;
      worker.life = Life::kGone;
      asio::post(io_, [this, i, serial = worker.serial] {
        if (IsCurrent(i, serial)) handler_.gone({static_cast<int>(i)});
      });
    }
  }

  void Post(const WorkerExited& event, bool gone_too) {
    const auto place = static_cast<size_t>(event.local_rank);
    asio::post(io_, [this, place, serial = workers_[place]->serial, event, gone_too] {
      if (IsCurrent(place, serial)) handler_.exited(event);
      if (IsCurrent(place, serial) && gone_too) handler_.gone({event.local_rank});
    });
  }

  bool IsLeader(pid_t pid) const {
    return std::ranges::any_of(
        workers_, [&](const auto& worker) { return worker->process && worker->process->pid() == pid; });
  }

  asio::io_context& io_;
  OutputMux& output_;
  const Handler handler_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Failed> failed_;
  bool left_ = false;    // child processes of the last workers stay
  RecordLadder ladder_;  // limits the wait of failed_
  bool holding_ = false;
  bool waited_ = false;      // long enough for workers that printed a traceback
  asio::steady_timer hold_;  // time of the next check
  int64_t last_serial_ = 0;
};

}  // namespace

std::unique_ptr<WorkerGroup> WorkerGroup::Make(asio::io_context& io, OutputMux& output, Handler handler) {
  return std::make_unique<Group>(io, output, std::move(handler));
}

}  // namespace mtrun::launcher
