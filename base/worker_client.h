// The worker's end of the channel. A reader thread of its own delivers messages; every public method may be
// called from any thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/worker_channel.h"

namespace mtrun {

class WorkerClient {
 public:
  /// Called on the reader thread for everything but store replies; `Closed` when the agent went away. Must
  /// not block.
  struct Handler {
    std::function<void(const channel::AgentMessage&)> message = [](const channel::AgentMessage&) {};
    std::function<void(absl::Status)> closed = [](absl::Status) {};
  };

  /// Connects to MTRUN_SOCKET and says hello.
  static absl::StatusOr<std::unique_ptr<WorkerClient>> Connect(const std::string& socket_path,
                                                               const channel::Hello& hello, Handler handler);
  ~WorkerClient();

  absl::Status Send(const channel::WorkerMessage& message);

  /// The key-value space of `generation` is meant from here on, so that what is said late reaches no other
  /// one. Before the first call: whichever is current at the agent.
  void Enter(const channel::Generation& generation);
  absl::Status Set(std::string_view key, std::string_view value);
  /// Waits until all keys, however many, are there; kAborted after Abort() or when the generation is over,
  /// kUnavailable when the agent goes away.
  absl::StatusOr<std::map<std::string, std::string>> Wait(const std::vector<std::string>& keys);
  /// Ends every blocked Wait, from any thread. Waits that begin later work again after ResetAbort().
  void Abort(std::string_view why);
  void ResetAbort();

 private:
  class Impl;
  explicit WorkerClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace mtrun
