// One ssh to one host: its process and its three streams, none of which blocks. Loop thread only.
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
  /// Kills the ssh, which ends the connection.
  ~Connection() = default;

  static constexpr size_t kPolled = 4;
  /// Appends kPolled entries: standard input, output, error, and the end of the process.
  void AddTo(std::vector<pollfd>* polled) const;

  /// Sent as the ssh takes it.
  void Send(std::string_view bytes);
  /// Passes on what waits.
  void SendMore();
  /// What has come on output (0) or error (1), at most `most` bytes; "" for nothing.
  std::string Take(int which, size_t most);
  bool is_open(int which) const { return streams_[which].valid(); }
  /// How the ssh ended, nothing while it runs.
  std::optional<ExitStatus> ended() const { return process_.Poll(); }

 private:
  Connection(Process process, UniqueFd input);

  Process process_;
  UniqueFd input_, streams_[2];
  std::string unsent_;
};

}  // namespace mtrun::launcher
