// Who is at the other end of a TCP connection.
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>

namespace mtrun::rendezvous {

/// "10.0.0.7:4242", "[fe80::1]:4242". An IPv4 address that is mapped into IPv6 is an IPv4 address.
std::string PeerOf(const sockaddr_storage& address);

/// The same of gRPC's "ipv4:10.0.0.7:4242" and "ipv6:%5Bfe80::1%5D:4242".
std::string PlainPeer(std::string_view peer);

/// Whoever only looks whether somebody listens says nothing.
bool HasSaidSomething(int socket);

}  // namespace mtrun::rendezvous
