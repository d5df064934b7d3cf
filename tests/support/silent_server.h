// A server on loopback that accepts connections and never sends anything.
#pragma once

#include <string>

#include "base/posix.h"
#include "tests/support/program.h"

namespace mtrun::support {

class SilentServer {
 public:
  /// Listens at a free port of 127.0.0.1; ends the process if it cannot.
  SilentServer();
  /// Returns "127.0.0.1:PORT".
  const std::string& endpoint() const { return endpoint_; }
  /// Returns whether a client connects within `patience`.
  bool IsAsked(Seconds patience) const;

 private:
  const UniqueFd socket_;
  std::string endpoint_;
};

}  // namespace mtrun::support
