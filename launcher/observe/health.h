// The health endpoint (TORCHELASTIC_HEALTH_CHECK_PORT): answers every HTTP request with 200 "alive". It runs
// on the agent's own loop, so that an agent that hangs does not answer; it says nothing more.
#pragma once

#include <memory>

#include "absl/status/statusor.h"

namespace asio {
class io_context;
}

namespace mtrun::launcher {

/// Lives on the io_context's thread.
class HealthServer {
 public:
  /// Listens on all addresses; port 0: any. kAlreadyExists-like errors name the port.
  static absl::StatusOr<std::unique_ptr<HealthServer>> Start(asio::io_context& io, int port);
  virtual ~HealthServer() = default;
  virtual int port() const = 0;
};

}  // namespace mtrun::launcher
