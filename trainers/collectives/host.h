// Which ranks share a machine, and where a machine can be reached.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun::collectives {

/// Text that is the same in exactly those processes that can meet over an abstract Unix socket and share
/// memory: boot id, network namespace and host name; MTRUN_HOST_ID in the environment overrides it (tests
/// make several "hosts" of one machine).
std::string LocalHostId();

/// Numeric addresses of this machine's interfaces that are up, loopback last.
std::vector<std::string> LocalAddresses();

/// What a rank tells its peers through the bootstrap before they connect.
struct PeerInfo {
  int pid = 0;
  std::string host;                    // for messages
  std::string host_id;                 // LocalHostId()
  std::string unix_name;               // abstract Unix socket, without the leading zero byte
  int port = 0;                        // TCP, 0 when every rank is on one host
  std::vector<std::string> addresses;  // to try with `port`
  bool encrypts = false;               // what it sends to other hosts
};
std::string Encode(const PeerInfo& info);
absl::StatusOr<PeerInfo> DecodePeerInfo(const std::string& text);

/// "rank 1 (pid 77 on node2)": how messages name a peer.
std::string Describe(int rank, const PeerInfo& info);

}  // namespace mtrun::collectives
