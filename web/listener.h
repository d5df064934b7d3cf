// A listening TCP socket. Its descriptors never leak into child programs, even if one starts during an
// accept.
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

/// Listens on `address`, a numeric IPv4 or IPv6 address; "" means all addresses of this machine, of both
/// kinds. `port` is 0 to 65535, 0: any free one. kUnavailable names the port if it is taken or not allowed;
/// kInvalidArgument if the address is invalid.
absl::StatusOr<Listener> Listen(const std::string& address, int port);

struct Accepted {
  UniqueFd socket;   // non-blocking, close-on-exec, without Nagle's delay
  std::string peer;  // the client's address as people write it: "192.0.2.7"
};

/// Accepts the next connection; returns nothing if none is pending. An error means that the system is out of
/// descriptors or memory; the connection stays pending.
absl::StatusOr<std::optional<Accepted>> Accept(int listener);

}  // namespace mtrun::web
