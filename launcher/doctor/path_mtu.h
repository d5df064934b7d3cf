// How large a packet may be on the way to another machine. It needs nobody's help there: a UDP datagram to a
// port where no one listens is answered with an ICMP message, and a smaller one must be where a larger one is
// not.
#pragma once

#include <sys/socket.h>

namespace mtrun::launcher {

enum class MtuProof {
  kArrives,  // a packet of that size has reached the host
  kNone,     // the host answers none, of whatever size: a firewall, or somebody listens
  kLost,     // small packets arrive, those of that size do not
};
struct PathMtu {
  int bytes = 0;  // as the kernel knows it (IP_MTU), after what routers said; 0: unknown
  MtuProof proof = MtuProof::kNone;
  bool operator==(const PathMtu&) const = default;
};

/// Of the way to `address`, which names a port. Blocks for at most 3 s; sends at most five datagrams.
PathMtu ProbePathMtu(const sockaddr* address, socklen_t size);

}  // namespace mtrun::launcher
