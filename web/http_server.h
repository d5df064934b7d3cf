// An HTTP/1.1 server with its own threads, for untrusted networks: every wait and size is bounded. Defaults
// suit few, short exchanges: one thread, one request per connection, plain text. Authentication is the
// handlers' task.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "web/router.h"
#include "web/tls_context.h"

namespace mtrun::web {

struct Limits {
  size_t header_bytes = 8 << 10;  // above: 431
  size_t body_bytes = 64 << 10;   // body of a request; above: 413
  size_t connections = 64;        // above: ConnectionSlots selects one to close

  Duration request_patience = std::chrono::seconds(5);  // for a whole request, or the connection closes
  Duration handler_patience = std::chrono::seconds(5);  // until its handler replies; then 503
  Duration send_patience = std::chrono::seconds(30);    // until the client has accepted the next `send_least`
  int64_t send_least = 256 << 10;                       // bytes of an answer, or its rest
  Duration idle_patience = Duration::zero();            // until another request; zero: one per connection
};

/// One request and its answer, for logs and counters.
struct Exchange {
  std::string peer = "";    // the client's address as people write it
  std::string method = "";  // "" if the request was malformed, also for `target`
  std::string target = "";
  int status = 0;
  int64_t bytes = 0;      // bytes sent, including the head
  double seconds = 0;     // since the complete request
  bool complete = false;  // the whole answer was sent
};

/// The configuration of a server.
struct Service {
  std::vector<Route> routes;
  Limits limits = {};
  std::shared_ptr<TlsContext> tls = nullptr;                 // null: no encryption
  int threads = 1;                                           // `limits.connections` is shared by all threads
  std::function<void(const Exchange&)> exchanged = nullptr;  // called on the server's threads
};

/// Thread-safe after construction.
class HttpServer {
 public:
  /// Listens on numeric `address` ("": all addresses) and `port` (0: any), and starts serving. kUnavailable
  /// names the port if it cannot be bound; kInvalidArgument if the address is invalid.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address, int port,
                                                           const Service& service);
  /// Accepts no more connections, closes those that wait for a request and lets the others finish their
  /// exchange for at most `timeout`. Returns false if some have not finished by then.
  virtual bool Finish(Duration timeout) = 0;
  /// Closes all connections in any state; no handler runs afterwards. A handler must not call it.
  virtual ~HttpServer() = default;

  virtual int port() const = 0;
  /// Returns the number of open connections.
  virtual int64_t connections() const = 0;
};

}  // namespace mtrun::web
