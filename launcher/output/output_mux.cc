#include "launcher/output/output_mux.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "base/terminal.h"
#include "launcher/output/error_tail.h"
#include "launcher/output/left_output.h"
#include "launcher/output/line_splitter.h"
#include "launcher/output/worker_log.h"

namespace mtrun::launcher {
namespace {

constexpr Duration kDrainPatience = std::chrono::seconds(2);
constexpr Duration kLookForMoves = std::chrono::milliseconds(50);  // for what has moved
constexpr size_t kReadSize = 64 << 10;
constexpr Duration kKeepUpdateEvery = std::chrono::seconds(5);
constexpr int kReadsInARow = 16;  // then the other streams have their turn
constexpr int kPromptAfterMs = 150;
constexpr int kTerminalMs = 20;

struct Stream {
  uint64_t serial = 0;  // the one that is added later has the larger one
  int local_rank = 0;
  int which = 0;  // 0 output, 1 error
  std::string prefix;
  UniqueFd source;
  WorkerLog file, filtered;
  std::vector<std::string> filters;
  bool to_console = true;
  bool thins_updates = false;
  bool raw = false;
  bool lives_on = false;
  bool breaks_lines = false;
  bool terminal = false;  // what is written to a terminal may be read a moment later
  LineSplitter splitter = LineSplitter();
  size_t shown = 0;            // bytes of the line that has begun which the console shows already
  bool rewrites = false;       // the line that has begun takes an update's place: it is the next one
  bool update_stands = false;  // its update is the console's line that stays
  TimePoint update_kept = {};  // when one went to the file

  bool ShowsLines() const { return to_console && !raw; }
  bool WantsLines() const { return ShowsLines() || thins_updates || which == 1 || !filters.empty(); }
  int64_t owner() const { return 2 * int64_t{local_rank} + which + 1; }
  bool Matches(const std::string& line) const {
    return std::any_of(filters.begin(), filters.end(),
                       [&](const std::string& text) { return line.find(text) != std::string::npos; });
  }
};

absl::StatusOr<WorkerLog> OpenLog(bool wanted, const std::string& path, size_t most_bytes = 0) {
  if (!wanted || path.empty()) return WorkerLog();
  return WorkerLog::Open(path, most_bytes);
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
    const MutexLock lock(mu_);
    stream.serial = ++last_serial_;
    if (stream.which == 1) tails_[stream.local_rank] = {};
    incoming_.push_back(std::move(stream));
    Wake();
  }

  /// What follows when a pass is over, beside what every pass does.
  struct Wish {
    bool close = false, keep = false, stop = false;
  };

  /// `at_the_end`: for as long as something moves; `patience` without that, or a hurry, is too long.
  bool WaitForPass(Duration patience, Wish wish, bool at_the_end = false) {
    const MutexLock lock(mu_);
    keep_wanted_ = keep_wanted_ || wish.keep;
    stop_ = stop_ || wish.stop;
    if (wish.close) close_up_to_ = last_serial_;  // it may come late: what is added meanwhile stays open
    const uint64_t wanted = ++passes_wanted_;
    Wake();
    uint64_t moved = at_the_end ? Moved() : 0;
    TimePoint deadline = MonotonicNow() + patience;
    while (passes_done_ < wanted) {
      pass_done_.WaitUntil(mu_, at_the_end ? std::min(deadline, MonotonicNow() + kLookForMoves) : deadline);
      const uint64_t now = at_the_end ? Moved() : 0;
      if (now != std::exchange(moved, now)) deadline = MonotonicNow() + patience;
      if (MonotonicNow() >= deadline || (at_the_end && console_->InAHurry())) return passes_done_ >= wanted;
    }
    return true;
  }

  /// Ends all streams; those that somebody may still write to.
  std::vector<OpenOutput> TakeOpen(Duration patience) {
    WaitForPass(patience, {.close = true, .keep = true}, /*at_the_end=*/true);
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
      uint64_t wanted = 0, done = 0, close_up_to = 0;
      bool stop = false, keep = false;
      {
        const MutexLock lock(mu_);
        streams_.splice(streams_.end(), incoming_);
        wanted = passes_wanted_;
        done = passes_done_;
        close_up_to = std::exchange(close_up_to_, 0);
        keep = std::exchange(keep_wanted_, false);
        stop = stop_;
      }
      const bool in_a_hurry = wanted != done || stop;
      ReadWhatIsThere(in_a_hurry ? 0 : HasPrompt() ? kPromptAfterMs : -1, in_a_hurry);
      if (in_a_hurry && HasTerminal()) ReadWhatIsThere(kTerminalMs, in_a_hurry);
      if (close_up_to > 0 || stop) {
        End(
            [&](const Stream& stream) {
              return stop || (stream.serial <= close_up_to && (keep || !stream.lives_on));
            },
            keep);
        SayWhatIsLost();
      }
      const MutexLock lock(mu_);
      passes_done_ = wanted;
      pass_done_.NotifyAll();
      if (stop) return;
    }
  }

  std::thread thread_;

 private:
  /// Grows whenever the console or this thread has got on.
  uint64_t Moved() const { return console_->Progress() + read_; }
  void Wake() { eventfd_write(wake_.get(), 1); }

  /// A line that has begun, for a terminal that does not show it yet.
  bool IsPrompt(const Stream& stream) const {
    return stream.ShowsLines() && stream.splitter.pending().size() > stream.shown &&
           !stream.splitter.Standing() && console_->IsTerminal(stream.which);
  }
  bool HasTerminal() const {
    return std::any_of(streams_.begin(), streams_.end(), [](const Stream& s) { return s.terminal; });
  }
  bool HasPrompt() const {
    return std::any_of(streams_.begin(), streams_.end(), [this](const Stream& s) { return IsPrompt(s); });
  }
  void ShowPrompts() {
    for (Stream& stream : streams_) {
      if (!IsPrompt(stream)) continue;
      const std::string pending(stream.splitter.pending());
      const size_t shown = stream.shown == 0 ? 0 : stream.prefix.size() + stream.shown;
      stream.shown = pending.size();
      if (stream.rewrites) {
        ShowUpdate(stream, pending);
      } else {
        console_->Begin(stream.which, absl::StrCat(stream.prefix, pending), stream.owner(), shown);
      }
    }
  }

  void ReadWhatIsThere(int timeout_ms, bool in_a_hurry) {
    std::vector<pollfd> fds = {{wake_.get(), POLLIN, 0}};
    for (const Stream& stream : streams_) fds.push_back({stream.source.get(), POLLIN, 0});
    const int ready = poll(fds.data(), fds.size(), timeout_ms);
    if (ready == 0 && !in_a_hurry) ShowPrompts();
    if (ready <= 0) return;
    eventfd_t ignored = 0;
    if (fds[0].revents != 0) eventfd_read(wake_.get(), &ignored);
    size_t i = 1;
    for (auto stream = streams_.begin(); stream != streams_.end(); ++i) {
      const bool ended = fds[i].revents != 0 && Drain(*stream);
      stream = ended ? streams_.erase(stream) : std::next(stream);
    }
  }

  /// Reads until the pipe is empty; true at its end.
  bool Drain(Stream& stream) {
    for (int i = 0; i < kReadsInARow; ++i) {
      const ssize_t size = read(stream.source.get(), buffer_.data(), buffer_.size());
      if (size < 0 && errno == EINTR) continue;
      if (size < 0 && errno == EAGAIN) return false;
      ++read_;
      if (size <= 0) {
        ShowTheEnd(stream);
        return true;
      }
      const std::string_view bytes(buffer_.data(), static_cast<size_t>(size));
      if (!stream.thins_updates) WriteToFile(stream.file, bytes);
      if (stream.to_console && stream.raw) console_->Raw(stream.which, std::string(bytes));
      if (!stream.WantsLines()) continue;
      Show(stream, stream.splitter.Feed(bytes));
      if (const auto standing = stream.splitter.Standing()) ShowUpdate(stream, *standing);
    }
    return false;
  }

  void ShowUpdate(Stream& stream, const std::string& text) {
    if (!stream.ShowsLines() || (text.empty() && !stream.update_stands)) return;
    stream.update_stands = !text.empty();
    console_->Update(stream.which, text.empty() ? "" : absl::StrCat(stream.prefix, text));
  }

  void ShowTheEnd(Stream& stream) {
    Show(stream, stream.splitter.Flush());
    ShowUpdate(stream, "");
  }

  /// What a file gets where updates are thinned out: whole lines, and an update now and then as one of them.
  static std::string FileText(Stream& stream, const std::vector<Piece>& pieces) {
    std::string text;
    for (const Piece& piece : pieces) {
      if (piece.kind == Piece::Kind::kUpdate) {
        const TimePoint now = MonotonicNow();
        if (piece.text.empty() || now - stream.update_kept < kKeepUpdateEvery) continue;
        stream.update_kept = now;
        absl::StrAppend(&text, WithoutEscapes(piece.text), "\n");
      } else {
        absl::StrAppend(&text, piece.text, piece.kind == Piece::Kind::kLine ? "\n" : "");
      }
    }
    return text;
  }

  /// Those that meet `which`; ReadWhatIsThere has dropped those that have ended by themselves.
  void End(const std::function<bool(const Stream&)>& which, bool keep) {
    for (auto stream = streams_.begin(); stream != streams_.end();) {
      if (!which(*stream)) {
        ++stream;
        continue;
      }
      ShowTheEnd(*stream);
      if (keep) KeepOpen(*stream);
      stream = streams_.erase(stream);
    }
  }

  void KeepOpen(Stream& stream) {
    const MutexLock lock(mu_);
    left_open_.push_back({std::move(stream.source), stream.file.Release(),
                          stream.to_console ? STDOUT_FILENO + stream.which : -1});
  }

  void Show(Stream& stream, const std::vector<Piece>& pieces) {
    if (stream.which == 1) KeepTail(stream.local_rank, pieces);
    if (stream.thins_updates) WriteToFile(stream.file, FileText(stream, pieces));
    const size_t shown = stream.shown == 0 ? 0 : stream.prefix.size() + stream.shown;
    if (!pieces.empty()) stream.shown = 0;
    if (!pieces.empty()) stream.rewrites = pieces.back().kind == Piece::Kind::kUpdate;
    std::string lines, filtered;
    for (const Piece& piece : pieces) {
      if (piece.kind == Piece::Kind::kUpdate) {
        // Rare but for terminals, which show no other lines before it.
        if (stream.ShowsLines() && !lines.empty()) console_->Lines(stream.which, std::exchange(lines, {}));
        ShowUpdate(stream, piece.text);
        continue;
      }
      ShowUpdate(stream, "");  // its own line takes the update's place
      const std::string line = absl::StrCat(stream.prefix, piece.text);
      const bool breaks = stream.breaks_lines && shown == 0;
      if (stream.ShowsLines())
        absl::StrAppend(&lines, breaks ? console_->Fit(stream.which, line) : line, "\n");
      if (stream.Matches(piece.text)) absl::StrAppend(&filtered, line, "\n");
    }
    WriteToFile(stream.filtered, filtered);
    if (!lines.empty()) console_->Finish(stream.which, std::move(lines), stream.owner(), shown);
  }

  void KeepTail(int local_rank, const std::vector<Piece>& pieces) {
    const MutexLock lock(mu_);
    tails_[local_rank].Add(pieces, WallClockNs());
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

  void SayWhatIsLost() {
    if (lost_bytes_ > lost_said_)
      log::Warning("about ", lost_bytes_ - lost_said_, " bytes of output could not be written to log files");
    lost_said_ = lost_bytes_;
  }

  const std::shared_ptr<Console> console_;

  // Mux thread only.
  std::vector<char> buffer_ = std::vector<char>(kReadSize);
  std::list<Stream> streams_;
  size_t lost_bytes_ = 0, lost_said_ = 0;

  std::atomic<uint64_t> read_ = 0;  // blocks
  const UniqueFd wake_;

  Mutex mu_;
  Condition pass_done_;
  std::list<Stream> incoming_ ABSL_GUARDED_BY(mu_);
  std::map<int, ErrorTail> tails_ ABSL_GUARDED_BY(mu_);
  uint64_t passes_wanted_ ABSL_GUARDED_BY(mu_) = 0, passes_done_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t last_serial_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t close_up_to_ ABSL_GUARDED_BY(mu_) = 0;  // 0: nothing is to be closed
  bool keep_wanted_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<OpenOutput> left_open_ ABSL_GUARDED_BY(mu_);
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
};

OutputMux::OutputMux(int console_out, int console_err, std::function<bool()> hurry)
    : impl_(std::make_shared<Impl>(console_out, console_err, std::move(hurry))) {
  impl_->thread_ = std::thread([impl = impl_] { impl->Run(); });
}

OutputMux::~OutputMux() {
  if (impl_->WaitForPass(kDrainPatience, {.stop = true}, /*at_the_end=*/true)) {
    impl_->thread_.join();
    return;
  }
  impl_->thread_.detach();  // it keeps Impl alive and hangs in a write to a file (a network disk)
  log::Warning("the last of the workers' output is lost: log files or the console do not take it");
  if (!console()->FlushAll()) console()->GiveUp();
}

const std::shared_ptr<Console>& OutputMux::console() const { return impl_->console(); }

absl::Status OutputMux::Add(WorkerStreams streams) {
  MT_ASSIGN_OR_RETURN(WorkerLog out_file,
                      OpenLog(streams.plan.out.file, streams.out_file, streams.most_log_bytes));
  MT_ASSIGN_OR_RETURN(WorkerLog err_file,
                      OpenLog(streams.plan.err.file, streams.err_file, streams.most_log_bytes));
  MT_ASSIGN_OR_RETURN(WorkerLog filtered_out,
                      OpenLog(!streams.out_filters.empty(), streams.filtered_out_file));
  MT_ASSIGN_OR_RETURN(WorkerLog filtered_err,
                      OpenLog(!streams.err_filters.empty(), streams.filtered_err_file));
  impl_->Add(Stream{0, streams.local_rank, 0, streams.prefix, std::move(streams.out), std::move(out_file),
                    std::move(filtered_out), streams.out_filters, streams.plan.out.console,
                    streams.thins_updates, streams.raw, streams.lives_on, streams.breaks_lines});
  impl_->Add(Stream{0, streams.local_rank, 1, streams.prefix, std::move(streams.err), std::move(err_file),
                    std::move(filtered_err), streams.err_filters, streams.plan.err.console,
                    /*thins_updates=*/false, streams.raw, streams.lives_on, streams.breaks_lines});
  return absl::OkStatus();
}

std::string OutputMux::TailOfError(int local_rank, Duration patience) {
  impl_->WaitForPass(patience, {});
  return impl_->Tail(local_rank).Text();
}

std::optional<ErrorTail::Traceback> OutputMux::LastTraceback(int local_rank, Duration patience) {
  impl_->WaitForPass(patience, {});
  return impl_->Tail(local_rank).traceback();
}

void OutputMux::LeaveBehind(Duration patience) {
  std::vector<OpenOutput> open = impl_->TakeOpen(patience);
  console()->FlushAll();
  if (!open.empty()) CarryOn(std::move(open));
}

void OutputMux::CloseAll(Duration patience) {
  impl_->WaitForPass(patience, {.close = true});
  console()->Flush(patience);
}

}  // namespace mtrun::launcher
