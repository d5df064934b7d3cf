// A port that tells whether any process of this node's job lives. Guardian, agent and workers hold it, so
// the kernel refuses connections there only when the last of them is gone, which silence never proves. The
// guardian answers with a random id: another program that gets the port later is no sign of life. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/port_range.h"
#include "base/posix.h"

namespace mtrun::launcher {

class PresencePort {
 public:
  /// A free port of `ports`, on 127.0.0.1 (::1 without IPv4) alone or on every address. Whatever is forked
  /// and executed from here on holds it too. A fresh id.
  static absl::StatusOr<PresencePort> Open(bool on_loopback, const PortRange& ports = {});
  PresencePort() = default;  // none

  int port() const { return port_; }    // 0 for none
  uint64_t id() const { return id_; }   // 0 for none
  int fd() const { return fd_.get(); }  // readable while somebody waits to be greeted; -1 for none

  /// Greets and closes at most `most` of the connections that wait. Never blocks, reads nothing. False when
  /// one could not be accepted, for want of descriptors say: it still waits, so asking again at once is no
  /// use.
  bool Greet(int most);
  /// Gives up this process's hold.
  void Close() { fd_.Reset(); }

 private:
  UniqueFd fd_;
  int port_ = 0;
  uint64_t id_ = 0;
  std::string greeting_;
};

}  // namespace mtrun::launcher
