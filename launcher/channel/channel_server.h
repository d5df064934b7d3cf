// The agent's end of the worker channel: a Unix socket in a private folder, JSON lines
// (base/worker_channel.h). Runs on the io_context's thread; so do its handlers. A connection is a worker's
// from its Hello on; what breaks the protocol is logged and closed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/worker_channel.h"

namespace asio {
class io_context;
}

namespace mtrun::launcher {

class ChannelServer {
 public:
  /// Every message of a worker, its Hello first. `connection` is never used again for another one.
  using OnMessage = std::function<void(int64_t connection, int local_rank, const channel::WorkerMessage&)>;

  static absl::StatusOr<std::unique_ptr<ChannelServer>> Start(asio::io_context& io, OnMessage on_message);
  /// Closes everything.
  virtual ~ChannelServer() = default;

  /// MTRUN_SOCKET: "@" and a name in Linux's abstract namespace. Nothing of it is left wherever mtrun is
  /// killed.
  virtual const std::string& name() const = 0;
  /// To the worker's newest connection; without one the message is dropped.
  virtual void SendToRank(int local_rank, const channel::AgentMessage& message) = 0;
  virtual void SendToConnection(int64_t connection, const channel::AgentMessage& message) = 0;
  /// What a worker that has ended had said before its end, also when it never got as far as being accepted.
  virtual void ReadRest(int local_rank) = 0;
  /// A replacement starts: messages of the worker that was here are dropped.
  virtual void Disconnect(int local_rank) = 0;
  /// The generation is over: messages of its workers are dropped.
  virtual void DisconnectAll() = 0;
};

}  // namespace mtrun::launcher
