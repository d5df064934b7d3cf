#include "launcher/console.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mtrun::launcher {
namespace {

constexpr Duration kExitPatience = std::chrono::seconds(2);
constexpr size_t kChunk = 64 << 10;

/// How much of `text` to write at once: whole lines, no more than a pipe takes in one piece, whoever else
/// (mtrun's log) writes to it.
size_t PieceSize(std::string_view text) {
  if (text.size() <= PIPE_BUF) return text.size();
  const size_t end = text.substr(0, PIPE_BUF).rfind('\n');
  return end == std::string_view::npos ? PIPE_BUF : end + 1;
}

}  // namespace

class Console::State {
 public:
  State(int out, int err) : fds_{out, err}, terminals_{isatty(out) == 1, isatty(err) == 1} {}

  bool IsTerminal(int which) const { return terminals_[which]; }

  enum class Kind { kLines, kUpdate, kSaid };
  void Put(int which, std::string text, Kind kind) {
    std::unique_lock lock(mu_);
    // An update that stands on the screen makes room for what comes next.
    if (std::exchange(update_shown_, kind == Kind::kUpdate)) text.insert(0, "\x1b[K");
    if (kind != Kind::kSaid) WaitForRoom(lock, text.size());
    if (bytes_ > 0 && bytes_ + text.size() > kQueueBytes) {
      lost_ += std::count(text.begin(), text.end(), '\n');
      return;
    }
    SayWhatIsLost();
    Append(which, std::move(text));
  }

  bool Flush(Duration patience) {
    std::unique_lock lock(mu_);
    SayWhatIsLost();
    return changed_.wait_for(lock, patience, [&] { return queue_.empty() && !writing_; });
  }

  void Stop() {
    const std::lock_guard lock(mu_);
    stop_ = true;
    changed_.notify_all();
  }

  void Run() {
    std::unique_lock lock(mu_);
    while (true) {
      changed_.wait(lock, [&] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const auto [which, text] = std::move(queue_.front());
      queue_.pop_front();
      writing_ = true;
      lock.unlock();
      Write(which, text);
      lock.lock();
      writing_ = false;
      bytes_ -= text.size();
      changed_.notify_all();
    }
  }

 private:
  struct Chunk {
    int which = 0;
    std::string text;
  };

  void Append(int which, std::string text) {
    bytes_ += text.size();
    if (!queue_.empty() && queue_.back().which == which &&
        queue_.back().text.size() + text.size() <= kChunk) {
      queue_.back().text += text;
    } else {
      queue_.push_back({which, std::move(text)});
    }
    changed_.notify_all();
  }

  /// Returns when `size` bytes fit, or when the console has taken nothing for a while.
  void WaitForRoom(std::unique_lock<std::mutex>& lock, size_t size) {
    while (bytes_ + size > kQueueBytes && bytes_ > 0) {
      const uint64_t seen = progress_;
      if (seen == stuck_at_) return;
      if (!changed_.wait_for(lock, kStandstill, [&] { return progress_ != seen; })) stuck_at_ = seen;
    }
  }

  void SayWhatIsLost() {
    if (lost_ == 0) return;
    Append(1, absl::StrCat("mtrun: ", std::exchange(lost_, 0),
                           " lines are missing here: the console stood still\n"));
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
      // A reader that is gone takes the console with it, not the job.
      if (written < 0) broken_[which] = true;
      if (written > 0) text.remove_prefix(static_cast<size_t>(written));
      const std::lock_guard lock(mu_);
      ++progress_;
      changed_.notify_all();
    }
  }

  const int fds_[2];
  const bool terminals_[2];
  bool broken_[2] = {false, false};  // writer thread only

  std::mutex mu_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Chunk> queue_;
  size_t bytes_ = 0;  // in the queue and being written
  bool writing_ = false, stop_ = false, update_shown_ = false;
  uint64_t progress_ = 1;  // successful writes
  uint64_t stuck_at_ = 0;  // value of progress_ at which it stood still
  int64_t lost_ = 0;       // lines, since the last notice
};

Console::Console(int out, int err) : state_(std::make_shared<State>(out, err)) {
  // The thread keeps its state alive: it may hang in a write for ever.
  std::thread([state = state_] { state->Run(); }).detach();
}

Console::~Console() {
  Flush(kExitPatience);
  state_->Stop();
}

void Console::Lines(int which, std::string text) { state_->Put(which, std::move(text), State::Kind::kLines); }

void Console::Say(std::string text) { state_->Put(1, std::move(text), State::Kind::kSaid); }

void Console::Update(int which, const std::string& text) {
  if (state_->IsTerminal(which)) state_->Put(which, absl::StrCat(text, "\r"), State::Kind::kUpdate);
}

bool Console::Flush(Duration patience) { return state_->Flush(patience); }

}  // namespace mtrun::launcher
