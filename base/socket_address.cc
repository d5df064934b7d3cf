#include "base/socket_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

namespace mtrun {
namespace {

sockaddr_storage LocalNameOf(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return address;
}

}  // namespace

std::string NumericText(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address == nullptr) return "";
  if (address->sa_family == AF_INET)
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  if (address->sa_family == AF_INET6) {
    const in6_addr& six = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    const bool mapped = IN6_IS_ADDR_V4MAPPED(&six);
    inet_ntop(mapped ? AF_INET : AF_INET6, six.s6_addr + (mapped ? 12 : 0), text, sizeof text);
  }
  return text;
}

std::string LocalAddressOf(int socket) { return NumericText(LocalNameOf(socket)); }

std::string PeerAddressOf(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  getpeername(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return NumericText(address);
}

int PortIn(const sockaddr_storage& address) {
  // It has the same offset in both families.
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

int PortOf(int socket) { return PortIn(LocalNameOf(socket)); }

}  // namespace mtrun
