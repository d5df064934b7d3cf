#include "tests/support/silent_server.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tests/support/tcp_client.h"

namespace mtrun::support {

SilentServer::SilentServer() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  constexpr int kBacklog = 128;
  sockaddr_in address = AddressOf("127.0.0.1", 0);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  MT_CHECK(bind(socket_.get(), any, size) == 0) << errno;
  MT_CHECK(listen(socket_.get(), kBacklog) == 0) << errno;
  MT_CHECK(getsockname(socket_.get(), any, &size) == 0) << errno;
  endpoint_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
}

bool SilentServer::IsAsked(Seconds patience) const {
  pollfd caller = {socket_.get(), POLLIN, 0};
  return poll(&caller, 1, static_cast<int>(patience.count() * 1000)) == 1;
}

}  // namespace mtrun::support
