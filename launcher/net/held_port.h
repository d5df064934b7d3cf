// Reservation of MASTER_PORT for the workers, and the address at which peers reach this node.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/endpoint.h"
#include "base/port_range.h"
#include "base/posix.h"

namespace mtrun::launcher {

/// A free TCP port that stays reserved: bound with SO_REUSEADDR, not listening, dual-stack. Processes that
/// also use SO_REUSEADDR can listen on it (PyTorch's TCPStore does); others do not get it as a free port.
class HeldPort {
 public:
  /// `port` 0: any free port of `ports`.
  static absl::StatusOr<HeldPort> Open(int port = 0, const PortRange& ports = {});
  int port() const { return port_; }
  void Release() { socket_.Reset(); }
  /// Listens, so that other processes cannot. Connections wait until the owner of the socket accepts them.
  absl::Status Listen();
  /// Returns the socket, to serve it in this process; invalid after Release.
  UniqueFd Take() { return std::move(socket_); }

 private:
  UniqueFd socket_;
  int port_ = 0;
};

/// Returns 127.0.0.1, or ::1 on a machine with only IPv6.
std::string LoopbackAddress();

/// The first address of an endpoint's host to which this machine has a route; both numeric, without zones.
struct Route {
  std::string own;     // source address of packets to it
  std::string remote;  // that address
};
/// Looks the route up; nothing is sent. kUnavailable if the endpoint's name does not resolve.
absl::StatusOr<Route> RouteTo(const Endpoint& endpoint);

/// Returns the address at which other nodes can reach this one: LoopbackAddress for a loopback endpoint; the
/// endpoint's address if this node hosts it; otherwise the source address of packets to the endpoint.
/// Errors as RouteTo.
absl::StatusOr<std::string> AddressTowards(const Endpoint& endpoint, bool hosting);

}  // namespace mtrun::launcher
