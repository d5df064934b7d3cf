// A listening TCP socket. No descriptor of it passes to a program that this one starts, not even when that
// happens while a connection is accepted.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/posix.h"

namespace mtrun::web {

struct Listener {
  UniqueFd socket;  // non-blocking, close-on-exec
  int port = 0;
};

/// `address` is a number, IPv4 or IPv6; "" means all addresses of this machine, of both kinds. `port` is 0 to
/// 65535, 0: any free one. kUnavailable names the port when it is taken or not allowed; kInvalidArgument: no
/// such address.
absl::StatusOr<Listener> Listen(const std::string& address, int port);

struct Accepted {
  UniqueFd socket;   // non-blocking, close-on-exec, sends at once
  std::string peer;  // the client's address in a form for comparisons only
};

/// "192.0.2.7": a peer as people write it.
std::string PeerText(const std::string& peer);

/// The next connection, nothing when none waits. An error means that the system cannot give one now (no
/// descriptor or no memory is free) and the connection still waits.
absl::StatusOr<std::optional<Accepted>> Accept(int listener);

}  // namespace mtrun::web
