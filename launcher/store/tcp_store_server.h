// PyTorch's TCPStore for the workers of one generation, on MASTER_PORT. It is served on its own thread, so
// that thousands of connecting workers do not delay the agent; the thread ends with this object.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "base/file_limit.h"
#include "base/posix.h"

namespace mtrun::launcher {

class TcpStoreServer {
 public:
  struct Options {
    bool this_machine_only = false;  // refuse connections from other machines
    // Above a limit, the longest-quiet client of the largest group is closed
    // (base/unauthenticated_connections.h).
    size_t most_clients = 64;
    size_t most_held = size_t{1} << 30;  // total bytes of incomplete requests and unread answers
  };
  /// Returns limits for a job of `workers` workers: any client that reaches the port may open connections.
  static Options OptionsFor(int workers, bool this_machine_only, size_t file_limit = FileLimit());

  /// `socket` must be bound, and may be listening already.
  static absl::StatusOr<std::unique_ptr<TcpStoreServer>> Start(UniqueFd socket, Options options);
  /// Closes every connection.
  virtual ~TcpStoreServer() = default;
  /// Acts like a new server on the same port: closes every connection and drops all state. Any thread.
  virtual void StartOver(Options options) = 0;
  /// Also serves this connection, from which nothing has been read. Any thread.
  virtual void Adopt(UniqueFd connection) = 0;
};

}  // namespace mtrun::launcher
