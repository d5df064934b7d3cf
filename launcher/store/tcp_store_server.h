// PyTorch's TCPStore for the workers of one generation, on MASTER_PORT. A thread of its own serves it, so
// that thousands of workers that meet hold up no decision of the agent; it ends with this object.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/posix.h"

namespace mtrun::launcher {

class TcpStoreServer {
 public:
  struct Options {
    bool this_machine_only = false;  // whoever comes from elsewhere is refused
  };

  /// `socket` is bound, and may listen already.
  static absl::StatusOr<std::unique_ptr<TcpStoreServer>> Start(UniqueFd socket, Options options);
  /// Closes every connection.
  virtual ~TcpStoreServer() = default;
  /// As a fresh one on the same port: closes every connection, forgets everything. Any thread.
  virtual void StartOver() = 0;
  /// Serves this connection too, of which nothing has been read. Any thread.
  virtual void Adopt(UniqueFd connection) = 0;
};

}  // namespace mtrun::launcher
