// The worker's end of the channel. Its reader thread delivers messages; every public method can be called
// from any thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/posix.h"
#include "base/worker_channel.h"

namespace mtrun {

class WorkerClient {
 public:
  /// Callbacks on the reader thread, for all messages except store replies; `closed` is called if the agent
  /// goes away. Must not block.
  struct Handler {
    std::function<void(const channel::AgentMessage&)> message = [](const channel::AgentMessage&) {};
    std::function<void(absl::Status)> closed = [](absl::Status) {};
  };

  /// Connects to MTRUN_SOCKET and says hello.
  static absl::StatusOr<std::unique_ptr<WorkerClient>> Connect(const std::string& socket_path,
                                                               const channel::Hello& hello, Handler handler);
  ~WorkerClient();

  absl::Status Send(const channel::WorkerMessage& message);

  /// Directs later store calls to the key-value space of `generation`, so that late calls reach no other one.
  /// Before the first Enter, calls go to the space that is current at the agent.
  void Enter(const channel::Generation& generation);
  absl::Status Set(std::string_view key, std::string_view value);
  /// Blocks until all keys exist, however many, and returns their values. kAborted after Abort() or if the
  /// generation is over, kUnavailable if the agent goes away.
  absl::StatusOr<std::map<std::string, std::string>> Wait(const std::vector<std::string>& keys);
  /// Ends every blocked Wait, from any thread. Later waits fail too until ResetAbort().
  void Abort(std::string_view why);
  void ResetAbort();

 private:
  WorkerClient(UniqueFd fd, Handler handler) : fd_(std::move(fd)), handler_(std::move(handler)) {}
  /// Sends one request and waits for its reply. `aborts` is the abort count before the enclosing wait began.
  absl::StatusOr<std::map<std::string, std::string>> WaitForSome(const std::vector<std::string>& keys,
                                                                 const channel::Generation& generation,
                                                                 int64_t aborts);
  void ReadLoop();
  absl::Status ReadUntilClosed();
  void Deliver(const channel::AgentMessage& message);

  const UniqueFd fd_;
  const Handler handler_;
  std::thread reader_;

  Mutex send_mu_;  // one message at a time
  Mutex mu_;
  Condition changed_;
  int64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<int64_t, std::optional<channel::StoreValues>> replies_ ABSL_GUARDED_BY(mu_);
  int64_t aborts_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status last_abort_ ABSL_GUARDED_BY(mu_);
  absl::Status stopped_ ABSL_GUARDED_BY(mu_);  // why new waits fail at once
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  channel::Generation generation_ ABSL_GUARDED_BY(mu_);
};

/// Returns the key for data servers that the agent at `socket` gives to programs of its job; "" if it has
/// none, is of an earlier version, or nothing listens there. kUnavailable if it does not answer within 10 s.
absl::StatusOr<std::string> AskAgentForDataKey(const std::string& socket);

}  // namespace mtrun
