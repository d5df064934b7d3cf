// One ssh to one host: its process and its three non-blocking streams. Loop thread only.
#pragma once

#include <poll.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/worker_env.h"
#include "launcher/workers/process.h"

namespace mtrun::launcher {

class Connection {
 public:
  /// `argv`: the program (found on PATH) and its arguments.
  static absl::StatusOr<std::unique_ptr<Connection>> Open(const std::vector<std::string>& argv,
                                                          const EnvironmentMap& environment);
  /// Kills the ssh, which closes the connection.
  ~Connection() = default;

  static constexpr size_t kPolled = 4;
  /// Appends kPolled entries: standard input, output, error, and the exit of the process.
  void AddTo(std::vector<pollfd>* polled) const;

  /// Queues the bytes; they are written as the ssh accepts them.
  void Send(std::string_view bytes);
  /// Writes queued bytes.
  void SendMore();
  /// Reads at most `most` bytes of output (0) or error (1); "" if there are none.
  std::string Take(int which, size_t most);
  /// Exit status of the ssh; nullopt while it runs. Checked in each turn, because AddTo may have no entry for
  /// it.
  std::optional<ExitStatus> ended() const { return process_.Poll(); }

 private:
  Connection(Process process, UniqueFd input);

  Process process_;
  const UniqueFd exit_;  // readable after the exit; invalid before Linux 5.3
  UniqueFd input_, streams_[2];
  std::string unsent_;
};

}  // namespace mtrun::launcher
