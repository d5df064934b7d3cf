#include "rendezvous/service/socket_peer.h"

#include <linux/tcp.h>  // <netinet/tcp.h> lacks tcpi_bytes_received
#include <netinet/in.h>

#include "absl/strings/str_replace.h"
#include "base/endpoint.h"
#include "base/socket_address.h"
#include "base/string_view.h"

namespace mtrun::rendezvous {

std::string PeerOf(const sockaddr_storage& address) {
  return ToText({NumericText(address), PortIn(address)});
}

/// True if the peer has sent something: one that only probes the port has not.
bool HasSaidSomething(int socket) {
  tcp_info info = {};
  socklen_t size = sizeof info;
  // The end of the peer's stream counts as one byte.
  return getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || info.tcpi_bytes_received > 1;
}

std::string PlainPeer(std::string_view peer) {
  const auto scheme = peer.find(':');
  std::string plain = absl::StrReplaceAll(View(peer).substr(scheme + 1), {{"%5B", "["}, {"%5D", "]"}});
  // The interface of a link-local address, after a % that is encoded once or twice; PeerOf omits it.
  const size_t scope = plain.find('%'), end = plain.rfind(']');
  if (scope != std::string::npos && end != std::string::npos && scope < end) plain.erase(scope, end - scope);
  return plain;
}

}  // namespace mtrun::rendezvous
