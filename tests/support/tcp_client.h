// A client of a port of this machine that says what it likes and reads until the other end closes.
#pragma once

#include <netinet/in.h>

#include <string>
#include <string_view>

#include "base/posix.h"
#include "tests/support/program.h"

namespace mtrun::support {

/// `host` in numbers; ends the process for anything else.
sockaddr_in AddressOf(const std::string& host, int port);
/// False when the other end of the socket no longer takes it.
bool SendAll(int fd, std::string_view bytes);

/// Not thread-safe.
class TcpClient {
 public:
  /// Connects to 127.0.0.1:`port` from the address `from` (each of 127.0.0.0/8 is this machine); ends the
  /// process when nobody listens there.
  explicit TcpClient(int port, const std::string& from = "127.0.0.1");
  /// Its socket alone; Connect does the rest, with no other descriptor.
  TcpClient();
  void Connect(int port, const std::string& from = "127.0.0.1") const;

  int fd() const { return socket_.get(); }
  /// See SendAll.
  bool Send(std::string_view bytes) const { return SendAll(fd(), bytes); }
  /// No more will be sent.
  void EndSending() const;
  /// All that comes until the other end closes or resets the connection; ends the process when it has not
  /// within kPatience.
  std::string ReadAll() const;
  /// Whether the other end has closed or sent anything, within `patience`.
  bool Hears(Seconds patience) const;

 private:
  UniqueFd socket_;
};

/// What a new connection answers to `request`.
std::string Ask(int port, std::string_view request, const std::string& from = "127.0.0.1");

}  // namespace mtrun::support
