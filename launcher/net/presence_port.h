// A port that shows whether any process of this node's job is alive. Guardian, agent and workers hold it, so
// the kernel refuses connections only after the last is gone; silence proves nothing. The guardian answers
// with a random id, which another program that gets the port later does not know. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/port_range.h"
#include "base/posix.h"

namespace mtrun::launcher {

class PresencePort {
 public:
  /// Opens a free port of `ports`, on 127.0.0.1 (::1 without IPv4) or on every address, with a fresh id. All
  /// processes forked and executed from now on hold it too.
  static absl::StatusOr<PresencePort> Open(bool on_loopback, const PortRange& ports = {});
  PresencePort() = default;  // no port

  int port() const { return port_; }    // 0 for none
  uint64_t id() const { return id_; }   // 0 for none
  int fd() const { return fd_.get(); }  // readable if a connection is waiting; -1 for none

  /// Greets and closes at most `most` waiting connections. Never blocks, reads nothing. Returns false if one
  /// could not be accepted (no descriptors, for example): it still waits, so do not retry immediately.
  bool Greet(int most);
  /// Closes this process's descriptor.
  void Close() { fd_.Reset(); }

 private:
  UniqueFd fd_;
  int port_ = 0;
  uint64_t id_ = 0;
  std::string greeting_;
};

}  // namespace mtrun::launcher
