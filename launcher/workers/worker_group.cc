#include "launcher/workers/worker_group.h"

#include <fcntl.h>
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
#include "rendezvous/types.h"

namespace mtrun::launcher {
namespace {

constexpr Duration kOutputPatience = std::chrono::milliseconds(300);
// A worker's own signal may be seen so much later than it came.
constexpr int64_t kSignalMarginNs = 1'000'000'000;
constexpr int kGroupKillRounds = 20;
constexpr int kPythonFailedStatus = 1;  // Python's, of an exception that nobody caught
/// Of one that has just printed a traceback and still runs: it is on its way out, or it has caught it.
constexpr Duration kTracebackPatience = std::chrono::seconds(1);
// What is older than the first end was handled: its worker lived on. Programs log errors that they have
// caught as Python prints its last one. A record is rarer, and who wrote one may join threads and free GPUs;
// so may one that wrote nothing behind its traceback.
constexpr int64_t kFreshTracebackNs = 3'000'000'000, kFreshErrorNs = 30'000'000'000;

/// The exit status of a worker that was not started: shells' for what another try does not mend, else 1 (no
/// descriptor, process or memory was left).
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
    for (const auto& worker : workers_) {
      if (worker->process && worker->life != Life::kGone) worker->process->Signal(signal);
    }
  }

  void SignalOne(int local_rank, int signal) override {
    const Worker& worker = *workers_.at(static_cast<size_t>(local_rank));
    if (worker.process && worker.life != Life::kGone) worker.process->Signal(signal);
  }

  void OnChildSignal() override {
    ReapOrphans();
    LookForExits();
  }

  void Clear() override {
    Forget();
    // What left its worker's session has no group to kill. What a dying process starts meanwhile has its turn
    // in the next round, or is the guardian's.
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
  /// A worker that ended badly and is not reported yet.
  struct Failed {
    int local_rank = 0;
    ExitStatus status;
    int64_t ended_at = 0;
    bool recorded = false;
    std::optional<int64_t> error_at = {};
    /// One without a known error ended of something that no Python could catch, which comes before what
    /// others recorded meanwhile; or it just exited, which says least.
    int64_t since() const {
      if (error_at) return *error_at;
      return status.signal != 0 ? ended_at - kSignalMarginNs : std::numeric_limits<int64_t>::max();
    }
  };
  struct Worker {
    std::optional<Process> process;
    std::optional<asio::posix::stream_descriptor> watch;
    WorkerFiles files;
    Life life = Life::kRunning;
    bool given_up = false;  // its end is waited for no more
    int64_t serial = 0;     // what was posted for another one is dropped
  };

  void ReapOrphans() {
    for (const ProcessInfo& process : ListProcesses()) {
      const bool ended = process.parent == getpid() && process.state == 'Z';
      if (ended && !IsLeader(process.pid) && process.pid != handler_.helper())
        waitpid(process.pid, nullptr, WNOHANG);
    }
  }

  void Forget() {
    hold_.cancel();
    holding_ = waited_ = false;
    ladder_ = RecordLadder(handler_.record_patience);
    failed_.clear();
    workers_.clear();
  }

  void Fill(size_t place, WorkerLaunch& launch) {
    left_ = false;
    workers_[place] = std::make_unique<Worker>();
    Worker& worker = *workers_[place];
    worker.serial = ++last_serial_;
    worker.files = launch.files;
    const absl::Status started = StartOne(worker, launch);
    if (!started.ok()) ReportNotStarted(static_cast<int>(place), started);
  }

  bool IsCurrent(size_t place, int64_t serial) const {
    return place < workers_.size() && workers_[place]->serial == serial;
  }

  /// With a descriptor of its own: asio closes it.
  absl::Status Watch(Worker& worker) {
    UniqueFd pidfd(fcntl(worker.process->pidfd(), F_DUPFD_CLOEXEC, 0));
    if (!pidfd.valid()) return ErrnoStatus(errno, "watch a worker");
    std::error_code error;
    worker.watch.emplace(io_).assign(pidfd.get(), error);
    if (error) return ErrnoStatus(error.value(), "watch a worker");
    pidfd.Release();
    return absl::OkStatus();
  }

  absl::Status StartOne(Worker& worker, WorkerLaunch& launch) {
    MT_ASSIGN_OR_RETURN(Process process, handler_.start(launch.spec));
    launch.streams.out = process.TakeOutput();
    launch.streams.err = process.TakeError();
    worker.process.emplace(std::move(process));
    absl::Status ready = Watch(worker);
    if (ready.ok()) ready = output_.Add(std::move(launch.streams));
    if (!ready.ok()) {
      worker.watch.reset();
      worker.process.reset();
      return ready;
    }
    worker.watch->async_wait(asio::posix::stream_descriptor::wait_read, [this](std::error_code error) {
      if (!error) LookForExits();
    });
    return absl::OkStatus();
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

  /// The first one counts as the cause of all: the one whose error is the earliest, which may be one that is
  /// still on its way out.
  void ReportFailures() {
    if (failed_.empty()) return;
    std::stable_sort(failed_.begin(), failed_.end(),
                     [](const Failed& a, const Failed& b) { return a.since() < b.since(); });
    if (AwaitsEarlierErrors()) return;
    if (!waited_ && PrintedEarlierError()) return WaitForEnd();
    hold_.cancel();
    holding_ = waited_ = false;
    ladder_ = RecordLadder(handler_.record_patience);
    for (const Failed& failed : std::exchange(failed_, {})) ReportExit(failed);
  }

  /// Of those who still run and have recorded one: RecordLadder says for how long.
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
                   "the failures of others are reported without it");
    }
    if (due == RecordLadder::Rung::kReport) return false;
    if (std::exchange(holding_, true)) return true;
    hold_.expires_at(*ladder_.deadline());
    hold_.async_wait([this](std::error_code error) {
      if (error) return;
      holding_ = false;
      LookForExits();
    });
    return true;
  }

  /// With when its error happened: when it recorded it, else when it printed the traceback that Python ends
  /// with. Peers that fail because its connections close are later than both, but may end sooner.
  Failed FailureOf(int local_rank, const ExitStatus& status) {
    Failed failed{local_rank, status, WallClockNs()};
    failed.error_at = IfFresh(RecordedAt(workers_[static_cast<size_t>(local_rank)]->files), kFreshErrorNs);
    failed.recorded = failed.error_at.has_value();
    if (failed.recorded || status.signal != 0 || status.code != kPythonFailedStatus) return failed;
    failed.error_at = PrintedAt(local_rank, kOutputPatience);
    return failed;
  }

  /// When it printed the traceback that it may be ending of.
  std::optional<int64_t> PrintedAt(int local_rank, Duration patience) {
    const auto printed = output_.LastTraceback(local_rank, patience);
    if (!printed) return std::nullopt;
    return IfFresh(printed->at_ns, printed->is_last ? kFreshErrorNs : kFreshTracebackNs);
  }

  /// `at`, unless it is so much older than the first of the ends that are not reported yet, which stays the
  /// first while others are waited for.
  std::optional<int64_t> IfFresh(std::optional<int64_t> at, int64_t fresh_ns) const {
    int64_t first_end = WallClockNs();
    for (const Failed& failed : failed_) first_end = std::min(first_end, failed.ended_at);
    return at && *at > first_end - fresh_ns ? at : std::nullopt;
  }

  /// Whether a worker that still runs has just printed a traceback, before the first one that has ended badly
  /// did.
  bool PrintedEarlierError() {
    const int64_t first = failed_.front().since();
    Duration patience = kOutputPatience;  // once: what all had written by now has come then
    for (size_t i = 0; i < workers_.size(); ++i) {
      if (workers_[i]->life != Life::kRunning) continue;
      const auto printed = PrintedAt(static_cast<int>(i), std::exchange(patience, Duration::zero()));
      if (printed && *printed < first) return true;
    }
    return false;
  }

  /// One that has caught its error lives on, so nobody is told to end.
  void WaitForEnd() {
    if (std::exchange(holding_, true)) return;
    hold_.expires_after(kTracebackPatience);
    hold_.async_wait([this](std::error_code error) {
      if (error) return;
      holding_ = false;
      waited_ = true;
      LookForExits();  // also for groups that are gone: no other event may follow
    });
  }

  /// Workers that still run and have recorded an error before the first one that has ended badly.
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
    if (std::none_of(workers_.begin(), workers_.end(), waits)) return;
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
    return std::any_of(workers_.begin(), workers_.end(),
                       [&](const auto& worker) { return worker->process && worker->process->pid() == pid; });
  }

  asio::io_context& io_;
  OutputMux& output_;
  const Handler handler_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Failed> failed_;
  bool left_ = false;    // what is left of the last workers lives on
  RecordLadder ladder_;  // of what failed_ waits for
  bool holding_ = false;
  bool waited_ = false;      // long enough for whoever has printed a traceback
  asio::steady_timer hold_;  // until it is looked at again
  int64_t last_serial_ = 0;
};

}  // namespace

std::unique_ptr<WorkerGroup> WorkerGroup::Make(asio::io_context& io, OutputMux& output, Handler handler) {
  return std::make_unique<Group>(io, output, std::move(handler));
}

}  // namespace mtrun::launcher
