// The health endpoint (TORCHELASTIC_HEALTH_CHECK_PORT): answers GET and HEAD of every path with 200 "alive",
// and of /readyz with 200 "ready" only while this node takes part in a generation, else with 503. The answer
// comes from the agent's own loop, so that an agent that hangs does not give it (503 instead, after a while);
// connections are served on another thread, so that they cost the loop nothing until they ask.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"

namespace asio {
class io_context;
}

namespace mtrun::launcher {

/// Lives on the io_context's thread; the io_context outlives it and has work as long as it lives.
class HealthServer {
 public:
  /// Listens on all addresses, in plain text whatever else is protected: a kubelet asks the pod's address. So
  /// it tells nothing but that. `takes_part` is asked on the io_context's thread. Port 0: any. kUnavailable
  /// names the port.
  static absl::StatusOr<std::unique_ptr<HealthServer>> Start(asio::io_context& io, int port,
                                                             std::function<bool()> takes_part);
  virtual ~HealthServer() = default;
  virtual int port() const = 0;
};

}  // namespace mtrun::launcher
