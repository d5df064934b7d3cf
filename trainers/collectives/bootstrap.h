// The key-value space that members of a group share before they are connected. Independent of LibTorch.
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
  /// Blocks until all keys exist and returns their values. kAborted after Abort().
  virtual absl::StatusOr<std::map<std::string, std::string>> Wait(const std::vector<std::string>& keys) = 0;
  /// Ends blocked and later calls of Wait.
  virtual void Abort(std::string_view why) = 0;
};

/// How members on different hosts connect.
struct Wire {
  Protection protection = Protection::kTag;  // for frames; the same on all members
  PortRange ports;                           // ports that a member may listen on
};

/// One member's identity in one generation.
struct GroupMember {
  int rank = 0;
  int world_size = 1;
  /// Identifies segments and frames: the same text on all members, never reused.
  std::string generation = "1.0";
  std::string address;  // this member's address for peers on other hosts; "": all local addresses
  Wire wire = {};
  /// Called on the connecting thread for each rank of another host that has not answered for some seconds,
  /// while dialing it continues (Unreached). May be empty.
  std::function<void(int rank)> unreached = {};
};

}  // namespace mtrun::collectives
