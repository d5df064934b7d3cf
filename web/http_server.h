// An HTTP/1.1 server on threads of its own, in a network where others may mean no good: every wait and every
// size has a bound. Unless it is told otherwise it is made for few and short exchanges: one thread, one
// request a connection, nothing encrypted. Nobody is asked who they are: that is a handler's business.
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
  size_t header_bytes = 8 << 10;  // more: 431
  size_t body_bytes = 64 << 10;   // of a request; more: 413
  size_t connections = 64;        // ConnectionSlots says who goes when there are more

  Duration request_patience =
      std::chrono::seconds(5);  // until a request is whole; then the connection closes
  Duration handler_patience = std::chrono::seconds(5);  // until its handler replies; then 503
  Duration send_patience = std::chrono::seconds(30);    // until the client has taken the next `send_least`
  int64_t send_least = 256 << 10;                       // bytes of an answer, or the rest of it
  Duration idle_patience = Duration::zero();  // with another request to come; zero: one a connection
};

/// One request and its answer, for logs and counters.
struct Exchange {
  std::string peer = "";    // the client's address as people write it
  std::string method = "";  // "" for what was no request, as `target`
  std::string target = "";
  int status = 0;
  int64_t bytes = 0;      // sent, with the head
  double seconds = 0;     // from the whole request on
  bool complete = false;  // all of the answer was sent
};

/// What is served and how.
struct Service {
  std::vector<Route> routes;
  Limits limits = {};
  std::shared_ptr<const TlsContext> tls = nullptr;           // null: nothing is encrypted
  int threads = 1;                                           // `limits.connections` is for all together
  std::function<void(const Exchange&)> exchanged = nullptr;  // called on the servers' threads
};

/// Thread-safe after construction.
class HttpServer {
 public:
  /// Listens at `address`, a number ("": all addresses), and `port` (0: any), and serves from then on.
  /// kUnavailable names the port when it cannot be had; kInvalidArgument: no such address.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address, int port,
                                                           std::vector<Route> routes,
                                                           const Limits& limits = {});
  static absl::StatusOr<std::unique_ptr<HttpServer>> StartService(const std::string& address, int port,
                                                                  const Service& service);
  /// Takes no more connections, closes those that wait for a request and lets the others end their exchange,
  /// for `patience` at most. False when some had not ended by then.
  virtual bool Finish(Duration patience) = 0;
  /// Closes all connections, whatever they wait for; no handler runs any more. Not to be called by one.
  virtual ~HttpServer() = default;

  virtual int port() const = 0;
  /// Now open.
  virtual int64_t connections() const = 0;
};

}  // namespace mtrun::web
