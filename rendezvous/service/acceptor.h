// The listening sockets of a service. It accepts connections, hands them to gRPC, and closes those that do
// not show the cluster's token in time or are too many (unknown_connections.h). Any peer that reaches the
// port can open connections, and each costs a descriptor until gRPC has read its certificate. It logs refused
// peers at most once a second.
#pragma once

#include <grpcpp/server_builder.h>

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/endpoint.h"
#include "base/posix.h"

namespace mtrun::rendezvous {

class Acceptor {
 public:
  using Receiver = std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor>;

  using ForeignConnections = std::function<void(UniqueFd)>;

  /// Opens one socket per address, all on one port. Returns kAlreadyExists if one cannot be bound. `quiet`:
  /// no token is used, so connections that close without a call are not logged.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Listen(const std::vector<Endpoint>& addresses, bool quiet);
  virtual ~Acceptor() = default;
  virtual int port() const = 0;
  /// Passes connections, including those since Listen, to `receiver`, whose server has started. Those that
  /// begin with a zero byte, as neither TLS nor HTTP/2 does, go unread to `foreign_connections` if it is set.
  virtual void Begin(Receiver receiver, ForeignConnections foreign_connections) = 0;
  /// Stops listening; connections that gRPC has continue. Call it before that server is destroyed.
  virtual void Stop() = 0;
  /// Notes that a call has come over the connection of this peer, as gRPC names it. Any thread, at any time.
  virtual void OnCall(std::string_view peer) = 0;
};

}  // namespace mtrun::rendezvous
