#include "tests/support/tcp_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/status_macros.h"

namespace mtrun::support {

sockaddr_in AddressOf(const std::string& host, int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  MT_CHECK(inet_pton(AF_INET, host.c_str(), &address.sin_addr) == 1) << host;
  return address;
}

bool SendAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

TcpClient::TcpClient() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  MT_CHECK(socket_.valid()) << errno;
}

TcpClient::TcpClient(int port, const std::string& from) : TcpClient() { Connect(port, from); }

void TcpClient::Connect(int port, const std::string& from) const {
  const sockaddr_in here = AddressOf(from, 0), there = AddressOf("127.0.0.1", port);
  MT_CHECK(bind(fd(), reinterpret_cast<const sockaddr*>(&here), sizeof here) == 0) << from << errno;
  MT_CHECK(connect(fd(), reinterpret_cast<const sockaddr*>(&there), sizeof there) == 0) << port << errno;
}

void TcpClient::EndSending() const { shutdown(fd(), SHUT_WR); }

std::string TcpClient::ReadAll() const {
  std::string heard;
  while (true) {
    MT_CHECK(Hears(kPatience)) << "the connection stays open; so far: " << heard;
    char bytes[4096];
    const ssize_t size = read(fd(), bytes, sizeof bytes);
    if (size <= 0) return heard;
    heard.append(bytes, static_cast<size_t>(size));
  }
}

bool TcpClient::Hears(Seconds patience) const {
  pollfd ready = {fd(), POLLIN, 0};
  return poll(&ready, 1, static_cast<int>(patience.count() * 1000)) == 1;
}

std::string Ask(int port, std::string_view request, const std::string& from) {
  const TcpClient client(port, from);
  client.Send(request);
  return client.ReadAll();
}

}  // namespace mtrun::support
