#include "launcher/output_mux.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "launcher/line_splitter.h"

namespace mtrun::launcher {
namespace {

constexpr Duration kExitPatience = std::chrono::seconds(2);
constexpr size_t kReadSize = 64 << 10;
constexpr int kReadsInARow = 16;  // then the other streams have their turn

/// The terminal or pipe that mtrun's own output goes to. Mux thread only.
class Console {
 public:
  Console(int out, int err) : fds_{out, err}, terminals_{isatty(out) == 1, isatty(err) == 1} {}

  void Line(int which, const std::string& prefix, const std::string& text) {
    Put(which, absl::StrCat(prefix, text, "\n"), false);
  }
  /// Shown only where it can be rewritten.
  void Update(int which, const std::string& prefix, const std::string& text) {
    if (terminals_[which]) Put(which, absl::StrCat(prefix, text, "\r"), true);
  }
  void Flush() {
    for (int which : {0, 1}) Write(which);
  }

 private:
  void Put(int which, std::string text, bool is_update) {
    if (std::exchange(update_shown_, is_update)) text.insert(0, "\x1b[K");
    // Up to PIPE_BUF bytes a pipe takes in one piece, whoever else (mtrun's log) writes to it.
    if (waiting_[which].size() + text.size() > PIPE_BUF) Write(which);
    if (!waiting_[1 - which].empty()) Write(1 - which);
    waiting_[which] += text;
  }

  void Write(int which) {
    const std::string text = std::exchange(waiting_[which], {});
    // A reader that is gone takes the console with it, not the job.
    if (!text.empty() && !broken_[which]) broken_[which] = !WriteAll(fds_[which], text).ok();
  }

  const int fds_[2];
  const bool terminals_[2];
  bool broken_[2] = {false, false};
  bool update_shown_ = false;
  std::string waiting_[2];
};

struct Stream {
  int local_rank = 0;
  int which = 0;  // 0 output, 1 error
  std::string prefix, path;
  UniqueFd source, file;
  bool to_console = true;
  LineSplitter splitter = LineSplitter();
};

absl::StatusOr<UniqueFd> OpenLog(const std::string& path) {
  if (path.empty()) return UniqueFd();
  UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file.valid()) return ErrnoStatus(errno, absl::StrCat("open log file ", path));
  return file;
}

}  // namespace

class OutputMux::Impl {
 public:
  Impl(int console_out, int console_err)
      : console_(console_out, console_err), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  void Add(Stream stream) {
    fcntl(stream.source.get(), F_SETFL, O_NONBLOCK);
    const std::lock_guard lock(mu_);
    if (stream.which == 1) tails_[stream.local_rank] = TailBuffer();
    incoming_.push_back(std::move(stream));
    Wake();
  }

  bool WaitForPass(Duration patience, bool close) {
    std::unique_lock lock(mu_);
    const uint64_t wanted = ++passes_wanted_;
    close_wanted_ = close_wanted_ || close;
    Wake();
    return pass_done_.wait_for(lock, patience, [&] { return passes_done_ >= wanted; });
  }

  std::string Tail(int local_rank) {
    const std::lock_guard lock(mu_);
    return tails_[local_rank].Text();
  }

  void Run() {
    while (true) {
      uint64_t wanted = 0;
      bool close = false, stop = false;
      {
        const std::lock_guard lock(mu_);
        streams_.splice(streams_.end(), incoming_);
        wanted = passes_wanted_;
        close = std::exchange(close_wanted_, false);
        stop = stop_;
      }
      const bool in_a_hurry = wanted != passes_done_ || stop;
      ReadWhatIsThere(in_a_hurry ? 0 : -1);
      if (close || stop) {
        for (Stream& stream : streams_) Handle(stream, stream.splitter.Flush());
        streams_.clear();
      }
      console_.Flush();
      const std::lock_guard lock(mu_);
      passes_done_ = wanted;
      stopped_ = stop;
      pass_done_.notify_all();
      if (stop) return;
    }
  }

  bool Stop(Duration patience) {
    std::unique_lock lock(mu_);
    stop_ = true;
    Wake();
    return pass_done_.wait_for(lock, patience, [&] { return stopped_; });
  }

  std::thread thread_;

 private:
  void Wake() { eventfd_write(wake_.get(), 1); }

  void ReadWhatIsThere(int timeout_ms) {
    std::vector<pollfd> fds = {{wake_.get(), POLLIN, 0}};
    for (const Stream& stream : streams_) fds.push_back({stream.source.get(), POLLIN, 0});
    if (poll(fds.data(), fds.size(), timeout_ms) <= 0) return;
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
    char bytes[kReadSize];
    for (int i = 0; i < kReadsInARow; ++i) {
      const ssize_t size = read(stream.source.get(), bytes, sizeof bytes);
      if (size < 0 && errno == EINTR) continue;
      if (size < 0 && errno == EAGAIN) return false;
      if (size <= 0) {
        Handle(stream, stream.splitter.Flush());
        return true;
      }
      Handle(stream, stream.splitter.Feed({bytes, static_cast<size_t>(size)}));
    }
    return false;
  }

  void Handle(Stream& stream, const std::vector<Piece>& pieces) {
    std::string raw;
    for (const Piece& piece : pieces) {
      if (piece.kind != Piece::Kind::kUpdate) raw += piece.raw;
    }
    if (stream.which == 1) {
      const std::lock_guard lock(mu_);
      for (const Piece& piece : pieces) {
        if (piece.kind != Piece::Kind::kUpdate) tails_[stream.local_rank].Add(piece.text);
      }
    }
    if (stream.file.valid() && !raw.empty()) WriteToFile(stream, raw);
    if (!stream.to_console) return;
    for (const Piece& piece : pieces) {
      if (piece.kind == Piece::Kind::kUpdate) {
        console_.Update(stream.which, stream.prefix, piece.text);
      } else {
        console_.Line(stream.which, stream.prefix, piece.text);
      }
    }
  }

  void WriteToFile(Stream& stream, const std::string& raw) {
    const absl::Status written = WriteAll(stream.file.get(), raw);
    if (written.ok()) return;
    log::Warning("log file ", stream.path, ": ", written.message(),
                 "; output goes to the console only from here on");
    stream.file.Reset();
  }

  // Mux thread only.
  Console console_;
  std::list<Stream> streams_;
  const UniqueFd wake_;

  std::mutex mu_;  // guards what follows
  std::condition_variable pass_done_;
  std::list<Stream> incoming_;
  std::map<int, TailBuffer> tails_;
  uint64_t passes_wanted_ = 0, passes_done_ = 0;
  bool close_wanted_ = false, stop_ = false, stopped_ = false;
};

OutputMux::OutputMux(int console_out, int console_err)
    : impl_(std::make_shared<Impl>(console_out, console_err)) {
  impl_->thread_ = std::thread([impl = impl_] { impl->Run(); });
}

OutputMux::~OutputMux() {
  if (impl_->Stop(kExitPatience)) {
    impl_->thread_.join();
  } else {
    impl_->thread_.detach();  // it keeps Impl alive and hangs in a write to the console
  }
}

absl::Status OutputMux::Add(WorkerStreams streams) {
  MT_ASSIGN_OR_RETURN(UniqueFd out_file, OpenLog(streams.plan.out.file ? streams.out_file : ""));
  MT_ASSIGN_OR_RETURN(UniqueFd err_file, OpenLog(streams.plan.err.file ? streams.err_file : ""));
  impl_->Add(Stream{streams.local_rank, 0, streams.prefix, streams.out_file, std::move(streams.out),
                    std::move(out_file), streams.plan.out.console});
  impl_->Add(Stream{streams.local_rank, 1, streams.prefix, streams.err_file, std::move(streams.err),
                    std::move(err_file), streams.plan.err.console});
  return absl::OkStatus();
}

std::string OutputMux::TailOfError(int local_rank, Duration patience) {
  impl_->WaitForPass(patience, false);
  return impl_->Tail(local_rank);
}

void OutputMux::CloseAll(Duration patience) { impl_->WaitForPass(patience, true); }

}  // namespace mtrun::launcher
