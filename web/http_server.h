// An HTTP/1.1 server on a thread of its own, made for few and short exchanges in a network where others may
// mean no good: every wait and every size has a bound, one request a connection. Nobody is asked who they
// are, and without TlsKeys nothing is encrypted: what is not for everyone on that network a handler must
// guard.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "web/router.h"
#include "web/tls.h"

namespace mtrun::web {

struct Limits {
  size_t header_bytes = 8 << 10;  // more: 431
  size_t body_bytes = 64 << 10;   // of a request; more: 413
  size_t connections = 64;        // ConnectionSlots says who goes when there are more

  Duration request_patience =
      std::chrono::seconds(5);  // until a request is whole; then the connection closes
  Duration handler_patience = std::chrono::seconds(5);  // until its handler replies; then 503
  Duration send_patience = std::chrono::seconds(30);    // until the client has taken the answer, or the
                                                        // next piece of a live one
};

/// Thread-safe after construction.
class HttpServer {
 public:
  /// Listens at `address`, a number ("": all addresses), and `port` (0: any), and serves from then on.
  /// kUnavailable names the port when it cannot be had; kInvalidArgument: no such address, or keys that are
  /// none. With `tls` all connections are encrypted (TLS 1.2 at least).
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address, int port,
                                                           std::vector<Route> routes,
                                                           const Limits& limits = {},
                                                           const std::optional<TlsKeys>& tls = std::nullopt);
  /// Closes all connections, whatever they wait for; no handler runs any more. Not to be called by one.
  virtual ~HttpServer() = default;

  virtual int port() const = 0;
};

}  // namespace mtrun::web
