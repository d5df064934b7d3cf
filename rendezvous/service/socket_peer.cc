#include "rendezvous/service/socket_peer.h"

#include <arpa/inet.h>
#include <linux/tcp.h>  // <netinet/tcp.h> lacks tcpi_bytes_received
#include <netinet/in.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/string_view.h"

namespace mtrun::rendezvous {

std::string PeerOf(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &four.sin_addr, text, sizeof text);
    return absl::StrCat(text, ":", ntohs(four.sin_port));
  }
  const auto& six = reinterpret_cast<const sockaddr_in6&>(address);
  const bool mapped = IN6_IS_ADDR_V4MAPPED(&six.sin6_addr);
  inet_ntop(mapped ? AF_INET : AF_INET6, six.sin6_addr.s6_addr + (mapped ? 12 : 0), text, sizeof text);
  return mapped ? absl::StrCat(text, ":", ntohs(six.sin6_port))
                : absl::StrCat("[", text, "]:", ntohs(six.sin6_port));
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
