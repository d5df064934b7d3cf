#include "launcher/output/console.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/terminal.h"

namespace mtrun::launcher {
namespace {

constexpr Duration kExitPatience = std::chrono::seconds(2);     // without progress
constexpr Duration kLookEvery = std::chrono::milliseconds(50);  // between checks of `hurry`
constexpr int kLastWordMs = 50;
constexpr size_t kChunk = 64 << 10;

/// Returns how much of `text` to write at once: complete lines, and no more than a pipe takes atomically,
/// because other writers (mtrun's log) share it.
size_t PieceSize(std::string_view text) {
  if (text.size() <= PIPE_BUF) return text.size();
  const size_t end = text.substr(0, PIPE_BUF).rfind('\n');
  return end == std::string_view::npos ? PIPE_BUF : end + 1;
}

/// Returns whether a write error is permanent: the output can never be read.
bool IsForGood(int error_number) {
  return error_number == EPIPE || error_number == EIO || error_number == EBADF;
}

constexpr const char* kStreamNames[] = {"standard output", "standard error"};

}  // namespace

class Console::State {
 public:
  State(int out, int err, std::function<bool()> hurry)
      : fds_{out, err}, terminals_{isatty(out) == 1, isatty(err) == 1}, hurry_(std::move(hurry)) {}

  bool ShuttingDown() const { return hurry_ && hurry_(); }
  uint64_t Progress() {
    const MutexLock lock(mu_);
    return progress_;
  }

  bool IsTerminal(int which) const { return terminals_[which]; }
  int Columns(int which) const { return TerminalSize::Of(fds_[which]).columns; }

  enum class Kind { kLines, kSaid, kBegun, kRaw };
  void Put(int which, std::string text, Kind kind, int64_t owner = 0, size_t shown = 0) {
    const MutexLock lock(mu_);
    if (kind != Kind::kSaid) WaitForRoom(text.size());
    if (bytes_ > 0 && bytes_ + text.size() > kQueueBytes) {
      lost_ += std::count(text.begin(), text.end(), '\n');
      unsaid_bytes_ += text.size();
      lost_bytes_ += text.size();
      return;
    }
    // Erase the status line before the new text; Draw puts it below again.
    Erase();
    SayWhatIsLost();
    const bool goes_on = owner != 0 && owner == std::exchange(unfinished_of_, 0) && unfinished_[which];
    if (goes_on) text.erase(0, shown);
    if (kind != Kind::kRaw && !goes_on && StandsInALine(which)) text.insert(text.begin(), '\n');
    if (kind == Kind::kBegun) unfinished_of_ = owner;
    if (!text.empty()) {
      EndLines(which);
      unfinished_[which] = text.back() != '\n';
      Append(which, std::move(text));
    }
    Draw();
  }

  void Update(int which, const std::string& text) {
    if (!terminals_[which]) return;
    const MutexLock lock(mu_);
    if (bytes_ > kQueueBytes / 2) return;  // the console is too slow for status lines
    if (update_drawn_ && which == update_which_ && text == update_) return;
    if (which == update_which_ || !text.empty()) Erase();
    if (which != update_which_ && text.empty()) return;
    update_ = text;
    update_which_ = which;
    Draw();
  }

  bool Flush(Duration timeout) {
    const MutexLock lock(mu_);
    SayWhatIsLost();
    const TimePoint deadline = MonotonicNow() + timeout;
    while (!queue_.empty() || writing_) {
      if (!changed_.WaitUntil(mu_, deadline)) return queue_.empty() && !writing_;
    }
    return true;
  }

  bool FlushAll() {
    const MutexLock lock(mu_);
    SayWhatIsLost();
    SayWhatIsRefused();
    uint64_t seen = progress_;
    TimePoint deadline = MonotonicNow() + kExitPatience;
    while (!queue_.empty() || writing_) {
      changed_.WaitUntil(mu_, MonotonicNow() + kLookEvery);
      if (progress_ != std::exchange(seen, progress_)) deadline = MonotonicNow() + kExitPatience;
      if (ShuttingDown() || MonotonicNow() >= deadline) return queue_.empty() && !writing_;
    }
    return true;
  }

  void GiveUp() {
    size_t dropped = 0;
    {
      const MutexLock lock(mu_);
      if (std::exchange(given_up_, true)) return;
      dropped = bytes_ + lost_bytes_;
      for (const Chunk& chunk : std::exchange(queue_, {})) bytes_ -= chunk.text.size();
    }
    if (dropped == 0) return;
    const std::string text = absl::StrCat(
        "mtrun: about ", dropped, " bytes of output are missing here: the console did not take them\n");
    pollfd ready = {fds_[1], POLLOUT, 0};
    // The writer thread may hang; a pipe with free space accepts a line immediately.
    if (poll(&ready, 1, kLastWordMs) == 1 && (ready.revents & POLLOUT) != 0 &&
        write(fds_[1], text.data(), text.size()) < 0)
      return;  // it cannot be reported
  }

  void Stop() {
    const MutexLock lock(mu_);
    stop_ = true;
    changed_.NotifyAll();
  }

  void Run() {
    while (const std::optional<Chunk> chunk = Take()) {
      Write(chunk->which, chunk->text);
      const MutexLock lock(mu_);
      writing_ = false;
      bytes_ -= chunk->text.size();
      lost_bytes_ -= chunk->lost_bytes;
      changed_.NotifyAll();
    }
  }

 private:
  struct Chunk {
    int which = 0;
    std::string text;
    size_t lost_bytes = 0;  // number of bytes that this chunk reports as missing
  };

  /// Returns whether the terminal shows an unfinished line of either stream, which must end first.
  bool StandsInALine(int which) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return terminals_[which] && (unfinished_[which] || (terminals_[1 - which] && unfinished_[1 - which]));
  }

  /// Marks the line of the stream as ended, and that of the other stream on the same screen.
  void EndLines(int which) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    unfinished_[which] = false;
    if (terminals_[0] && terminals_[1]) unfinished_[1 - which] = false;
  }

  /// Returns the next chunk to write; nullopt after Stop if all is written.
  std::optional<Chunk> Take() {
    const MutexLock lock(mu_);
    while (!stop_ && queue_.empty()) changed_.Wait(mu_);
    if (queue_.empty()) return std::nullopt;
    Chunk chunk = std::move(queue_.front());
    queue_.pop_front();
    writing_ = true;
    return chunk;
  }

  void Append(int which, std::string text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    bytes_ += text.size();
    if (!queue_.empty() && queue_.back().which == which &&
        queue_.back().text.size() + text.size() <= kChunk) {
      queue_.back().text += text;
    } else {
      queue_.push_back({which, std::move(text)});
    }
    changed_.NotifyAll();
  }

  void Erase() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (std::exchange(update_drawn_, false)) Append(update_which_, "\r\x1b[K");
  }

  /// Draws the status line and returns the cursor to the left, so that other writers overwrite it. A terminal
  /// may wrap in its last column, which stays free. Not drawn after an unfinished prompt.
  void Draw() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (update_.empty() || StandsInALine(update_which_)) return;
    update_drawn_ = true;
    const int columns = TerminalSize::Of(fds_[update_which_]).columns;
    Append(update_which_,
           absl::StrCat(ClipColumns(update_, static_cast<size_t>(std::max(columns, 2) - 1)), "\r"));
  }

  /// Blocks until `size` bytes fit, or the console has accepted nothing for a while.
  void WaitForRoom(size_t size) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    while (bytes_ + size > kQueueBytes && bytes_ > 0) {
      const uint64_t seen = progress_;
      if (seen == stuck_at_) return;
      const TimePoint deadline = MonotonicNow() + kBlockedAfter;
      while (progress_ == seen && changed_.WaitUntil(mu_, deadline)) continue;
      if (progress_ == seen) stuck_at_ = seen;
    }
  }

  void SayWhatIsLost() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (lost_ == 0) return;
    Append(1, absl::StrCat(StandsInALine(1) ? "\n" : "", "mtrun: ", std::exchange(lost_, 0),
                           " lines are missing here: the console was blocked\n"));
    queue_.back().lost_bytes += std::exchange(unsaid_bytes_, 0);
    EndLines(1);
  }

  /// Reports the total lost to a full disk, at the end; the first loss is reported at once.
  void SayWhatIsRefused() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (const int which : {0, 1}) {
      if (refused_[which] == 0) continue;
      SayOn(1 - which, absl::StrCat("mtrun: ", std::exchange(refused_[which], 0), " bytes are missing on ",
                                    kStreamNames[which], "\n"));
    }
  }

  void SayOn(int which, const std::string& line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    Erase();
    Append(which, absl::StrCat(StandsInALine(which) ? "\n" : "", line));
    EndLines(which);
    Draw();
  }

  void OnRefused(int which, size_t bytes, int error_number) {
    const MutexLock lock(mu_);
    ++progress_;
    refused_[which] += bytes;
    if (std::exchange(warned_[which], true)) return;
    SayOn(1 - which, absl::StrCat("mtrun: ", kStreamNames[which], ": ", std::strerror(error_number),
                                  "; the job continues, what cannot be written is lost\n"));
  }

  void Write(int which, std::string_view text) {
    while (!text.empty() && !broken_[which]) {
      const ssize_t written = write(fds_[which], text.data(), PieceSize(text));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0 && errno == EAGAIN) {  // another program may have made the terminal non-blocking
        pollfd ready = {fds_[which], POLLOUT, 0};
        poll(&ready, 1, -1);
        continue;
      }
      // A closed reader ends the console, not the job; a disk may have free space again later.
      if (written < 0 && !IsForGood(errno)) return OnRefused(which, text.size(), errno);
      if (written < 0) broken_[which] = true;
      if (written > 0) text.remove_prefix(static_cast<size_t>(written));
      const MutexLock lock(mu_);
      ++progress_;
      changed_.NotifyAll();
    }
  }

  const int fds_[2];
  const bool terminals_[2];
  const std::function<bool()> hurry_;
  bool broken_[2] = {false, false};  // writer thread only

  Mutex mu_;
  Condition changed_;
  std::deque<Chunk> queue_ ABSL_GUARDED_BY(mu_);
  size_t bytes_ ABSL_GUARDED_BY(mu_) = 0;  // queued or being written
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  bool given_up_ ABSL_GUARDED_BY(mu_) = false;
  std::string update_ ABSL_GUARDED_BY(mu_);  // status line
  int update_which_ ABSL_GUARDED_BY(mu_) = 0;
  bool update_drawn_ ABSL_GUARDED_BY(mu_) = false;            // false while an unfinished line is shown
  bool unfinished_[2] ABSL_GUARDED_BY(mu_) = {false, false};  // the last text did not end its line
  int64_t unfinished_of_ ABSL_GUARDED_BY(mu_) = 0;            // owner that may finish the line
  uint64_t progress_ ABSL_GUARDED_BY(mu_) = 1;                // grows with each successful write
  uint64_t stuck_at_ ABSL_GUARDED_BY(mu_) = 0;                // progress_ when the console was found blocked
  int64_t lost_ ABSL_GUARDED_BY(mu_) = 0;                     // lines lost since the last notice
  size_t unsaid_bytes_ ABSL_GUARDED_BY(mu_) = 0;              // bytes of these lines
  size_t lost_bytes_ ABSL_GUARDED_BY(mu_) = 0;                // includes notices not written yet
  size_t refused_[2] ABSL_GUARDED_BY(mu_) = {0, 0};           // bytes rejected by a full disk
  bool warned_[2] ABSL_GUARDED_BY(mu_) = {false, false};      // the first rejection was reported
};

Console::Console(int out, int err, std::function<bool()> hurry)
    : state_(std::make_shared<State>(out, err, std::move(hurry))) {
  // The thread shares ownership of the state because it may hang in a write forever.
  std::thread([state = state_] { state->Run(); }).detach();
}

Console::~Console() {
  for (const int which : {0, 1}) state_->Update(which, "");
  if (!FlushAll()) GiveUp();
  state_->Stop();
}

void Console::Lines(int which, std::string text) { state_->Put(which, std::move(text), State::Kind::kLines); }

void Console::Finish(int which, std::string text, int64_t owner, size_t shown) {
  state_->Put(which, std::move(text), State::Kind::kLines, owner, shown);
}

void Console::Begin(int which, std::string text, int64_t owner, size_t shown) {
  state_->Put(which, std::move(text), State::Kind::kBegun, owner, shown);
}

void Console::Raw(int which, std::string bytes) { state_->Put(which, std::move(bytes), State::Kind::kRaw); }

bool Console::IsTerminal(int which) const { return state_->IsTerminal(which); }

void Console::Write(int which, const ConsoleWrite& write, int64_t owner) {
  switch (write.kind) {
    case ConsoleWrite::Kind::kRaw:
      return Raw(which, write.text);
    case ConsoleWrite::Kind::kLines: {
      std::string text = write.wraps ? BreakLinesForPeople(write.text, state_->Columns(which)) : write.text;
      return write.shown == 0 ? Lines(which, std::move(text))
                              : Finish(which, std::move(text), owner, write.shown);
    }
    case ConsoleWrite::Kind::kBegin:
      return Begin(which, write.text, owner, write.shown);
    case ConsoleWrite::Kind::kUpdate:
      return Update(which, write.text);
  }
}

void Console::Say(std::string text) { state_->Put(1, std::move(text), State::Kind::kSaid); }

void Console::Update(int which, const std::string& text) { state_->Update(which, text); }

bool Console::Flush(Duration timeout) { return state_->Flush(timeout); }

bool Console::FlushAll() { return state_->FlushAll(); }

void Console::GiveUp() { state_->GiveUp(); }

bool Console::ShuttingDown() const { return state_->ShuttingDown(); }

uint64_t Console::Progress() const { return state_->Progress(); }

}  // namespace mtrun::launcher
