// The listening sockets of a service. It accepts connections, hands them to gRPC and cuts those that do not
// show the cluster's token in time or are too many (unknown_connections.h): whoever reaches the port can open
// connections, and each one costs a descriptor until gRPC has read its certificate. It says whom it has
// turned away, once a second at most.
#pragma once

#include <grpcpp/server_builder.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/endpoint.h"
#include "base/posix.h"

namespace mtrun::rendezvous {

class Acceptor {
 public:
  using Receiver = std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor>;

  using Strangers = std::function<void(UniqueFd)>;

  /// One socket an address and all on one port. kAlreadyExists where one cannot be bound. `quiet`: nobody
  /// shows a token here, and who leaves without a call is no news.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Listen(const std::vector<Endpoint>& addresses, bool quiet);
  virtual ~Acceptor() = default;
  virtual int port() const = 0;
  /// Connections that have come since Listen go to `receiver` too, whose server has started. Those that begin
  /// with a zero byte, as neither TLS nor HTTP/2 does, go to `strangers` where there is one, unread.
  virtual void Begin(Receiver receiver, Strangers strangers) = 0;
  /// Listens no more; connections that gRPC has go on. Before that server goes.
  virtual void Stop() = 0;
  /// A call has come over the connection of this peer, as gRPC names it. Any thread, at any time.
  virtual void OnCall(std::string_view peer) = 0;
};

}  // namespace mtrun::rendezvous
