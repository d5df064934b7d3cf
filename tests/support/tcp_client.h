// A client that connects to a port of this machine, sends anything and reads until the other end closes.
#pragma once

#include <netinet/in.h>

#include <string>
#include <string_view>

#include "base/posix.h"
#include "tests/support/program.h"

namespace mtrun::support {

/// `host` is numeric; ends the process otherwise.
sockaddr_in AddressOf(const std::string& host, int port);
/// Returns false if the other end of the socket no longer accepts data.
bool SendAll(int fd, std::string_view bytes);

/// Not thread-safe.
class TcpClient {
 public:
  /// Connects to 127.0.0.1:`port` from the address `from` (all of 127.0.0.0/8 is this machine); ends the
  /// process if there is no listener.
  explicit TcpClient(int port, const std::string& from = "127.0.0.1");
  /// Makes only its socket; Connect does the rest, without another descriptor.
  TcpClient();
  void Connect(int port, const std::string& from = "127.0.0.1") const;

  int fd() const { return socket_.get(); }
  /// See SendAll.
  bool Send(std::string_view bytes) const { return SendAll(fd(), bytes); }
  /// Ends the sending direction.
  void EndSending() const;
  /// Reads until the other end closes or resets the connection; ends the process after kPatience.
  std::string ReadAll() const;
  /// Returns whether the other end closes or sends anything within `patience`.
  bool Hears(Seconds patience) const;

 private:
  UniqueFd socket_;
};

/// Returns the answer of a new connection to `request`.
std::string Ask(int port, std::string_view request, const std::string& from = "127.0.0.1");

}  // namespace mtrun::support
