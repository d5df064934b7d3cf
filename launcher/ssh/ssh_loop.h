// Event loop of RunOverSsh: connects connections, signals and time with RemoteJob's decisions.
#pragma once

#include <poll.h>

#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/posix.h"
#include "launcher/output/console.h"
#include "launcher/ssh/connection.h"
#include "launcher/ssh/host_streams.h"
#include "launcher/ssh/remote_job.h"
#include "launcher/ssh/ssh_launch.h"

namespace mtrun::launcher {

class SshLoop {
 public:
  /// `environment`: for ssh. `signals`: a signalfd.
  SshLoop(SshLaunch launch, RemoteJob::Config config, EnvironmentMap environment, UniqueFd signals);

  /// Returns the job's exit status.
  int Run();

 private:
  struct Remote {
    std::unique_ptr<Connection> connection;  // null: none
    HostOutput output;
    std::unique_ptr<HostStreams> streams;
    bool greeted = false;
    std::string said;  // standard error before the greeting
    std::optional<int> end_status;
    // Valid if end_status is set:
    TimePoint cut_at;
    size_t last_bytes = 0;  // bytes received since then
  };

  void Perform(RemoteJob::Effects effects);
  void PerformOne(const RemoteEffect& effect);
  void Connect(size_t host);
  void Launch(size_t host, const std::string& endpoint);
  int PatienceMs() const;
  void Poll();
  void OnSignals();
  /// `late`: its time after the status of its mtrun has elapsed. `process_ended`: the ssh has exited.
  void OnConnection(size_t host, bool late, bool process_ended);
  std::string Take(Remote& remote, int which);
  bool ReadOutput(size_t host);
  bool ReadError(size_t host);
  /// `cut`: there is more output.
  void Close(size_t host, bool cut);
  void Beat();

  const SshLaunch launch_;
  const EnvironmentMap environment_;
  const UniqueFd signals_;
  const std::shared_ptr<Console> console_;
  const std::shared_ptr<std::set<std::string>> boxes_;  // boxes shown so far
  RemoteJob job_;
  std::vector<Remote> remotes_;
  std::deque<RemoteEffect> effects_;  // queue; performing one effect may append others
  TimePoint next_beat_;
  bool said_endpoint_ = false;
  std::optional<int> exit_status_;
};

}  // namespace mtrun::launcher
