// The peer of a TCP connection.
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>

namespace mtrun::rendezvous {

/// Returns "10.0.0.7:4242" or "[fe80::1]:4242". An IPv4 address mapped into IPv6 counts as IPv4.
std::string PeerOf(const sockaddr_storage& address);

/// Returns the same for gRPC's "ipv4:10.0.0.7:4242" and "ipv6:%5Bfe80::1%5D:4242".
std::string PlainPeer(std::string_view peer);

/// Returns true if the peer has sent something. One that only probes the port has not.
bool HasSaidSomething(int socket);

}  // namespace mtrun::rendezvous
