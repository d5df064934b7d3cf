// The health endpoint (TORCHELASTIC_HEALTH_CHECK_PORT): answers GET and HEAD of every path with 200 "alive".
// /readyz answers 200 "ready" only while this node is in a generation, otherwise 503. The agent's own loop
// makes the answer, so that an agent that hangs does not give it (503 after a while instead). Connections are
// served on another thread, so that only complete requests reach the loop.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "web/http_server.h"

namespace asio {
class io_context;
}

namespace mtrun::launcher {

/// Listens on all addresses, in plain text (a kubelet uses the pod's address), so it reveals nothing else.
/// Calls `takes_part` on the io_context's thread. The server keeps the io_context, which must outlive it,
/// from running out of work. Port 0: any free port. kUnavailable names the port.
absl::StatusOr<std::unique_ptr<web::HttpServer>> StartHealthServer(asio::io_context& io, int port,
                                                                   std::function<bool()> takes_part);

}  // namespace mtrun::launcher
