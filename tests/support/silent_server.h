// A server on loopback that takes connections and never says a word.
#pragma once

#include <string>

#include "base/posix.h"
#include "tests/support/program.h"

namespace mtrun::support {

class SilentServer {
 public:
  /// Listens at a free port of 127.0.0.1; ends the process where it cannot.
  SilentServer();
  /// "127.0.0.1:PORT".
  const std::string& endpoint() const { return endpoint_; }
  /// Whether somebody comes within `patience`.
  bool IsAsked(Seconds patience) const;

 private:
  const UniqueFd socket_;
  std::string endpoint_;
};

}  // namespace mtrun::support
