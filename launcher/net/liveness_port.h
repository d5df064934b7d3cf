// A port that answers while this agent lives: who connects in vain ("refused") knows for certain that it is
// gone, which silence never proves. Nobody accepts; the kernel answers. Not thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "base/posix.h"

namespace mtrun::launcher {

class LivenessPort {
 public:
  static absl::StatusOr<LivenessPort> Open();
  LivenessPort() = default;  // none
  /// 0 for none.
  int port() const { return port_; }

 private:
  UniqueFd socket_;
  int port_ = 0;
};

}  // namespace mtrun::launcher
