// MASTER_PORT kept for the workers, and the address at which peers reach this node.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/endpoint.h"
#include "base/port_range.h"
#include "base/posix.h"

namespace mtrun::launcher {

/// A free TCP port that stays ours: bound with SO_REUSEADDR, not listening yet, dual-stack. Whoever binds it
/// with SO_REUSEADDR too may listen on it (PyTorch's TCPStore does); whoever asks for any free port does not
/// get it.
class HeldPort {
 public:
  /// `port` 0: any free one of `ports`.
  static absl::StatusOr<HeldPort> Open(int port = 0, const PortRange& ports = {});
  int port() const { return port_; }
  void Release() { socket_.Reset(); }
  /// From here on nobody else may listen on it either. What connects waits for whoever takes the socket.
  absl::Status Listen();
  /// The socket, for whoever listens on it in this process; not valid after Release.
  UniqueFd Take() { return std::move(socket_); }

 private:
  UniqueFd socket_;
  int port_ = 0;
};

/// 127.0.0.1, or ::1 on a machine that has IPv6 alone.
std::string LoopbackAddress();

/// The address that other nodes can reach this one at: LoopbackAddress for a loopback endpoint; the
/// endpoint's own when this node hosts and it is an IP address; else the local address from which packets to
/// the endpoint leave (nothing is sent). kUnavailable when the endpoint's name does not resolve.
absl::StatusOr<std::string> AddressTowards(const Endpoint& endpoint, bool hosting);

}  // namespace mtrun::launcher
