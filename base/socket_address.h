// The addresses of IP sockets, as text.
#pragma once

#include <sys/socket.h>

#include <string>

namespace mtrun {

/// Returns "10.0.0.2"; an IPv4-mapped IPv6 address as IPv4, a link-local address without its interface. Null
/// and other families are "".
std::string NumericText(const sockaddr* address);
inline std::string NumericText(const sockaddr_storage& address) {
  return NumericText(reinterpret_cast<const sockaddr*>(&address));
}

/// Returns the address of this end of a socket, or of the other; "" if it is not known.
std::string LocalAddressOf(int socket);
std::string PeerAddressOf(int socket);

/// Returns the port in the address of either family.
int PortIn(const sockaddr_storage& address);
/// Returns the port to which a socket is bound; 0 with errno if it is not known.
int PortOf(int socket);

}  // namespace mtrun
