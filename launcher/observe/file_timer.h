// The file timer (TORCHELASTIC_ENABLE_FILE_TIMER=1): workers write requests to a named pipe, as PyTorch's
// FileTimerClient does. If a worker's timer expires it is sent the signal that it requested, and then counts
// as failed like any other.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace asio {
class io_context;
}

namespace mtrun::launcher {

/// The running timers. Pure; times are seconds since 1970, the clock of the clients.
class FileTimers {
 public:
  struct Expired {
    int64_t pid = 0;
    int signal = 0;
    std::string scope;
    bool operator==(const Expired&) const = default;
  };

  /// Reads one line: {"pid", "scope_id", "expiration_time", "signal"}; a negative time releases the timer.
  absl::Status Take(std::string_view line);
  /// Returns workers with an expired timer that requested a signal, each once; drops all their timers.
  std::vector<Expired> Expire(double now);
  /// Returns when the next timer expires.
  std::optional<double> Next() const;

 private:
  struct Timer {
    double expires = 0;
    int signal = 0;
  };
  std::map<std::pair<int64_t, std::string>, Timer> timers_;
};

/// The pipe and its clock. Runs on the io_context's thread.
class FileTimerServer {
 public:
  using OnExpired = std::function<void(const FileTimers::Expired&)>;

  /// Makes the pipe at `path` (which must not exist or be a pipe); "" makes one in a private folder.
  static absl::StatusOr<std::unique_ptr<FileTimerServer>> Start(asio::io_context& io, std::string path,
                                                                OnExpired on_expired);
  /// Removes the pipe.
  virtual ~FileTimerServer() = default;
  /// Value for TORCHELASTIC_TIMER_FILE.
  virtual const std::string& path() const = 0;
};

}  // namespace mtrun::launcher
