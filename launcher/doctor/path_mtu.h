// Measures how large a packet can be on the path to another machine, without help from there: a UDP datagram
// to a closed port is answered by ICMP. If only small datagrams are answered, large ones are lost.
#pragma once

#include <sys/socket.h>

namespace mtrun::launcher {

enum class MtuProof {
  kArrives,  // a packet of that size reached the host
  kNone,     // no packet is answered: a firewall, or the port is open
  kLost,     // small packets arrive, packets of that size do not
};
struct PathMtu {
  int bytes = 0;  // the kernel's value (IP_MTU), after routers' messages; 0: unknown
  MtuProof proof = MtuProof::kNone;
  bool operator==(const PathMtu&) const = default;
};

/// Probes the path to `address`, which includes a port. Blocks for at most 3 s; sends at most five datagrams.
PathMtu ProbePathMtu(const sockaddr* address, socklen_t size);

}  // namespace mtrun::launcher
