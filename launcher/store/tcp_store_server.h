// PyTorch's TCPStore for the workers of one generation, on MASTER_PORT. A thread of its own serves it, so
// that thousands of workers that meet hold up no decision of the agent; it ends with this object.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/file_limit.h"
#include "base/posix.h"

namespace mtrun::launcher {

class TcpStoreServer {
 public:
  struct Options {
    bool this_machine_only = false;  // whoever comes from elsewhere is refused
    // Beyond these the one goes that has been quiet for longest, of those who have most (base/crowd.h).
    size_t most_clients = 64;
    size_t most_held =
        size_t{1} << 30;  // bytes of what clients have begun to say and have not read, all told
  };
  /// For a job of so many workers: whoever reaches the port may open connections.
  static Options OptionsFor(int workers, bool this_machine_only, size_t file_limit = FileLimit());

  /// `socket` is bound, and may listen already.
  static absl::StatusOr<std::unique_ptr<TcpStoreServer>> Start(UniqueFd socket, Options options);
  /// Closes every connection.
  virtual ~TcpStoreServer() = default;
  /// As a fresh one on the same port: closes every connection, forgets everything. Any thread.
  virtual void StartOver(Options options) = 0;
  /// Serves this connection too, of which nothing has been read. Any thread.
  virtual void Adopt(UniqueFd connection) = 0;
};

}  // namespace mtrun::launcher
