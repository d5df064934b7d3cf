#include "launcher/output/output_mux.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <list>
#include <map>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "launcher/output/left_output.h"
#include "launcher/output/output_passes.h"
#include "launcher/output/stream_output.h"
#include "launcher/output/worker_log.h"

namespace mtrun::launcher {
namespace {

constexpr Duration kDrainPatience = std::chrono::seconds(2);
constexpr size_t kReadSize = 64 << 10;
constexpr int kReadsInARow = 16;  // before the other streams get their turn
constexpr int kTerminalMs = 20;

struct Stream {
  int local_rank = 0;
  StreamRules rules;
  UniqueFd source;
  WorkerLog file, filtered;
  bool lives_on = false;
  StreamOutput output = StreamOutput({});
  uint64_t serial = 0;    // larger for streams added later
  bool terminal = false;  // text written to a terminal may become readable a moment later

  int64_t owner() const { return 2 * int64_t{local_rank} + rules.which + 1; }
};

absl::StatusOr<WorkerLog> OpenLog(const std::string& path, size_t most_bytes = 0) {
  if (path.empty()) return WorkerLog();
  return WorkerLog::Open(path, most_bytes);
}

absl::StatusOr<Stream> MakeStream(const WorkerStreams& of, int which, UniqueFd& source, bool to_console,
                                  const std::string& file, const std::vector<std::string>& filters,
                                  const std::string& filtered_file) {
  Stream stream;
  MT_ASSIGN_OR_RETURN(stream.file, OpenLog(file, of.most_log_bytes));
  MT_ASSIGN_OR_RETURN(stream.filtered, OpenLog(filters.empty() ? "" : filtered_file));
  stream.local_rank = of.local_rank;
  stream.lives_on = of.lives_on;
  stream.source = std::move(source);
  stream.rules = {.which = which,
                  .prefix = of.prefix,
                  .filters = filters,
                  .to_console = to_console,
                  .raw = of.raw,
                  .breaks_lines = of.breaks_lines,
                  .thins_updates = of.thins_updates && which == 0};
  return stream;
}

}  // namespace

class OutputMux::Impl {
 public:
  Impl(int console_out, int console_err, std::function<bool()> hurry)
      : console_(std::make_shared<Console>(console_out, console_err, std::move(hurry))),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  void Add(Stream stream) {
    fcntl(stream.source.get(), F_SETFL, O_NONBLOCK);
    stream.terminal = isatty(stream.source.get()) == 1;
    stream.rules.on_terminal = console_->IsTerminal(stream.rules.which);
    stream.output = StreamOutput(stream.rules);
    const MutexLock lock(mu_);
    stream.serial = ++last_serial_;
    if (stream.rules.which == 1) tails_[stream.local_rank] = {};
    incoming_.push_back(std::move(stream));
    Wake();
  }

  /// Waits for a pass; returns whether it ended.
  bool WaitForPass(Duration timeout, const PassWork& work = {}) {
    return passes_.Await(Request(work), timeout);
  }

  /// Does the same at the job's end: progress extends `timeout`, a hurry ends it.
  bool WaitForLastPass(Duration timeout, const PassWork& work) {
    return passes_.Await(
        Request(work), timeout, [this] { return console_->Progress() + read_; },
        [this] { return console_->ShuttingDown(); });
  }

  /// Returns the number of the last stream. A close may run late: streams added after this stay open.
  uint64_t LastSerial() {
    const MutexLock lock(mu_);
    return last_serial_;
  }

  /// Ends all streams and returns those that may still be written to.
  std::vector<OpenOutput> TakeOpen(Duration timeout) {
    WaitForLastPass(timeout, {.close_up_to = LastSerial(), .keep = true});
    const MutexLock lock(mu_);
    return std::move(left_open_);
  }

  const std::shared_ptr<Console>& console() const { return console_; }

  ErrorTail Tail(int local_rank) {
    const MutexLock lock(mu_);
    return tails_[local_rank];
  }

  void Run() {
    while (true) {
      const OutputPasses::Pass pass = passes_.Begin();
      TakeIncoming();
      PollOnce(pass.requested ? TimePoint() : NextDue());
      if (pass.requested && HasTerminal()) PollOnce(MonotonicNow() + std::chrono::milliseconds(kTerminalMs));
      if (!pass.requested) OnTime();
      if (pass.work.close_up_to > 0 || pass.work.stop) Close(pass.work);
      passes_.End(pass);
      if (pass.work.stop) return;
    }
  }

  std::thread thread_;

 private:
  void Wake() { eventfd_write(wake_.get(), 1); }
  uint64_t Request(const PassWork& work) {
    const uint64_t number = passes_.Request(work);
    Wake();
    return number;
  }

  void TakeIncoming() {
    const MutexLock lock(mu_);
    streams_.splice(streams_.end(), incoming_);
  }

  bool HasTerminal() const {
    return std::any_of(streams_.begin(), streams_.end(), [](const Stream& s) { return s.terminal; });
  }

  std::optional<TimePoint> NextDue() const {
    std::optional<TimePoint> next;
    for (const Stream& stream : streams_) {
      const std::optional<TimePoint> due = stream.output.Due(quiet_since_);
      if (due && (!next || *due < *next)) next = due;
    }
    return next;
  }

  void OnTime() {
    for (Stream& stream : streams_) Perform(stream, stream.output.OnTime(MonotonicNow(), quiet_since_));
  }

  /// Waits for bytes until `deadline`, if there is one, and handles those that have arrived.
  void PollOnce(std::optional<TimePoint> deadline) {
    std::vector<pollfd> fds = {{wake_.get(), POLLIN, 0}};
    for (const Stream& stream : streams_) fds.push_back({stream.source.get(), POLLIN, 0});
    if (poll(fds.data(), fds.size(), deadline ? MillisecondsUntil(*deadline) : -1) <= 0) return;
    eventfd_t ignored = 0;
    if (fds[0].revents != 0) eventfd_read(wake_.get(), &ignored);
    size_t i = 1;
    for (auto stream = streams_.begin(); stream != streams_.end(); ++i) {
      const bool ended = fds[i].revents != 0 && Drain(*stream);
      stream = ended ? streams_.erase(stream) : std::next(stream);
    }
  }

  static int MillisecondsUntil(TimePoint deadline) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - MonotonicNow()).count();
    return static_cast<int>(std::max<int64_t>(left, 0));
  }

  /// Reads until the pipe is empty; returns true at its end.
  bool Drain(Stream& stream) {
    for (int i = 0; i < kReadsInARow; ++i) {
      const ssize_t size = read(stream.source.get(), buffer_.data(), buffer_.size());
      if (size < 0 && errno == EINTR) continue;
      if (size < 0 && errno == EAGAIN) return false;
      ++read_;
      quiet_since_ = MonotonicNow();
      if (size <= 0) {
        Perform(stream, stream.output.OnEnd(quiet_since_));
        return true;
      }
      const std::string_view bytes(buffer_.data(), static_cast<size_t>(size));
      Perform(stream, stream.output.OnBytes(bytes, quiet_since_));
    }
    return false;
  }

  void Perform(Stream& stream, const StreamWrites& writes) {
    WriteToFile(stream.file, writes.file);
    WriteToFile(stream.filtered, writes.filtered);
    for (const ConsoleWrite& write : writes.console)
      console_->Write(stream.rules.which, write, stream.owner());
    if (writes.tail.empty()) return;
    const MutexLock lock(mu_);
    tails_[stream.local_rank].Add(writes.tail, WallClockNs());
  }

  /// Ends the streams that the work names; Drain has removed those that ended by themselves.
  void Close(const PassWork& work) {
    for (auto stream = streams_.begin(); stream != streams_.end();) {
      const bool named = stream->serial <= work.close_up_to && (work.keep || !stream->lives_on);
      if (!work.stop && !named) {
        ++stream;
        continue;
      }
      Perform(*stream, stream->output.OnEnd(MonotonicNow()));
      if (work.keep) KeepOpen(*stream);
      stream = streams_.erase(stream);
    }
    ReportLostBytes();
  }

  void KeepOpen(Stream& stream) {
    const MutexLock lock(mu_);
    left_open_.push_back({std::move(stream.source), stream.file.Release(),
                          stream.rules.to_console ? STDOUT_FILENO + stream.rules.which : -1});
  }

  void WriteToFile(WorkerLog& file, std::string_view bytes) {
    const absl::Status written = file.Write(bytes);
    if (written.ok()) return;
    if (lost_bytes_ == 0) {
      log::Warning("log file ", file.path(), ": ", written.message(),
                   "; the workers continue, what does not fit into the log files is lost");
    }
    lost_bytes_ += bytes.size();
  }

  void ReportLostBytes() {
    const size_t lost = lost_bytes_ - std::exchange(reported_bytes_, lost_bytes_);
    if (lost > 0) log::Warning("about ", lost, " bytes of output could not be written to log files");
  }

  const std::shared_ptr<Console> console_;
  OutputPasses passes_;
  const UniqueFd wake_;
  std::atomic<uint64_t> read_ = 0;  // number of blocks read

  // Mux thread only.
  std::vector<char> buffer_ = std::vector<char>(kReadSize);
  std::list<Stream> streams_;
  TimePoint quiet_since_ = {};  // when the last bytes arrived
  size_t lost_bytes_ = 0, reported_bytes_ = 0;

  Mutex mu_;
  std::list<Stream> incoming_ ABSL_GUARDED_BY(mu_);
  std::map<int, ErrorTail> tails_ ABSL_GUARDED_BY(mu_);
  uint64_t last_serial_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<OpenOutput> left_open_ ABSL_GUARDED_BY(mu_);
};

OutputMux::OutputMux(int console_out, int console_err, std::function<bool()> hurry)
    : impl_(std::make_shared<Impl>(console_out, console_err, std::move(hurry))) {
  impl_->thread_ = std::thread([impl = impl_] { impl->Run(); });
}

OutputMux::~OutputMux() {
  if (impl_->WaitForLastPass(kDrainPatience, {.stop = true})) {
    impl_->thread_.join();
    return;
  }
  impl_->thread_.detach();  // keeps Impl alive; it hangs in a write to a file (network disk)
  log::Warning("the last of the workers' output is lost: the log files or the console blocked");
  if (!console()->FlushAll()) console()->GiveUp();
}

const std::shared_ptr<Console>& OutputMux::console() const { return impl_->console(); }

absl::Status OutputMux::Add(WorkerStreams streams) {
  MT_ASSIGN_OR_RETURN(Stream out, MakeStream(streams, 0, streams.out, streams.plan.out, streams.files.out,
                                             streams.out_filters, streams.files.filtered_out));
  MT_ASSIGN_OR_RETURN(Stream err, MakeStream(streams, 1, streams.err, streams.plan.err, streams.files.err,
                                             streams.err_filters, streams.files.filtered_err));
  impl_->Add(std::move(out));
  impl_->Add(std::move(err));
  return absl::OkStatus();
}

std::string OutputMux::TailOfError(int local_rank, Duration timeout) {
  impl_->WaitForPass(timeout);
  return impl_->Tail(local_rank).Text();
}

std::optional<ErrorTail::Traceback> OutputMux::LastTraceback(int local_rank, Duration timeout) {
  impl_->WaitForPass(timeout);
  return impl_->Tail(local_rank).traceback();
}

void OutputMux::HandOff(Duration timeout) {
  std::vector<OpenOutput> open = impl_->TakeOpen(timeout);
  console()->FlushAll();
  if (!open.empty()) CarryOn(std::move(open));
}

void OutputMux::CloseAll(Duration timeout) {
  impl_->WaitForPass(timeout, {.close_up_to = impl_->LastSerial()});
  console()->Flush(timeout);
}

}  // namespace mtrun::launcher
