// The agent's end of the worker channel: an abstract Unix socket with JSON lines (base/worker_channel.h).
// Runs on the io_context's thread; the handlers run there too. A connection belongs to a worker after its
// Hello. A client that violates the protocol is logged and disconnected.
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
  /// Receives every message of a worker, beginning with its Hello. A `connection` number is never reused.
  using OnMessage = std::function<void(int64_t connection, int local_rank, const channel::WorkerMessage&)>;

  /// Returns the text of the key for data servers, "" for none.
  using GetDataKey = std::function<std::string()>;

  /// Answers requests for the key itself.
  static absl::StatusOr<std::unique_ptr<ChannelServer>> Start(asio::io_context& io, OnMessage on_message,
                                                              GetDataKey data_key);
  /// Closes everything.
  virtual ~ChannelServer() = default;

  /// MTRUN_SOCKET: "@" and a name in Linux's abstract namespace, so that nothing is left if mtrun is killed.
  virtual const std::string& name() const = 0;
  /// Sends to the worker's newest connection; if there is none the message is dropped.
  virtual void SendToRank(int local_rank, const channel::AgentMessage& message) = 0;
  virtual void SendToConnection(int64_t connection, const channel::AgentMessage& message) = 0;
  /// Reads what an exited worker sent before its exit, even if its connection was not accepted yet.
  virtual void ReadRest(int local_rank) = 0;
  /// Drops further messages of the worker because its replacement starts.
  virtual void Disconnect(int local_rank) = 0;
  /// Drops further messages of all workers because the generation is over.
  virtual void DisconnectAll() = 0;
};

}  // namespace mtrun::launcher
