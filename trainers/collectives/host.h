// Finds which ranks share a machine, and the addresses of this machine.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun::collectives {

/// Returns a text that is the same in exactly those processes that can connect over an abstract Unix socket
/// and share memory: boot id, network namespace and host name. MTRUN_HOST_ID in the environment overrides it
/// (tests make several "hosts" of one machine).
std::string LocalHostId();

/// Returns the numeric addresses of this machine's interfaces that are up, loopback last.
std::vector<std::string> LocalAddresses();

/// The contact data that a rank publishes in the bootstrap before its peers connect.
struct PeerInfo {
  int pid = 0;
  std::string host;                    // for messages
  std::string host_id;                 // LocalHostId()
  std::string unix_name;               // abstract Unix socket, without the leading zero byte
  int port = 0;                        // TCP
  std::vector<std::string> addresses;  // addresses to try with `port`
  bool encrypts = false;               // encrypts its frames to other hosts
};
std::string Encode(const PeerInfo& info);
absl::StatusOr<PeerInfo> DecodePeerInfo(const std::string& text);

/// Returns "rank 1 (pid 77 on node2)", a peer's name in messages.
std::string Describe(int rank, const PeerInfo& info);

}  // namespace mtrun::collectives
