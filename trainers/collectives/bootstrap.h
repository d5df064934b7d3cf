// What a process group needs before it can talk: a small key-value space that all its members share. Free of
// LibTorch.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/port_range.h"
#include "trainers/collectives/frame_cipher.h"

namespace mtrun::collectives {

/// Thread-safe. Implementations: the agent's store over the worker channel, c10d's TCPStore, a map for tests.
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  virtual absl::Status Set(std::string_view key, std::string_view value) = 0;
  /// Blocks until every key is there. kAborted after Abort().
  virtual absl::StatusOr<std::map<std::string, std::string>> Wait(const std::vector<std::string>& keys) = 0;
  /// Ends blocked and later Waits.
  virtual void Abort(std::string_view why) = 0;
};

/// How members reach each other between hosts.
struct Wire {
  Protection protection = Protection::kTag;  // of frames; the same on all members
  PortRange ports;                           // where a member listens
};

/// Who one member is in one generation.
struct GroupMember {
  int rank = 0;
  int world_size = 1;
  /// The same text on all members, never used again: names segments and frames.
  std::string generation = "1.0";
  std::string address;  // where peers on other hosts reach this one; "" = found from the bootstrap
  Wire wire = {};
  /// Called on the thread that connects, for each rank of another host that has not answered for seconds,
  /// while it is still tried (Unreached). May be empty.
  std::function<void(int rank)> unreached = {};
};

}  // namespace mtrun::collectives
