// Connects all ranks of a generation with each other, over Unix sockets within a host and TCP between hosts.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/posix.h"
#include "trainers/collectives/bootstrap.h"
#include "trainers/collectives/frame_cipher.h"
#include "trainers/collectives/host.h"

namespace mtrun::collectives {

/// One other rank and the connections to it.
struct Peer {
  int rank = -1;
  std::string host_id;  // LocalHostId() of the rank; also of this rank's own entry
  std::string name;     // "rank 1 (pid 77 on node2)"
  bool local = false;
  UniqueFd control;                         // non-blocking; shutdown notices; closes if the peer ends
  UniqueFd data;                            // non-blocking; remote peers only
  std::unique_ptr<FrameCipher> seal, open;  // for frames sent and received over `data`
  UniqueFd segment;                         // read-only; local peers only
  UniqueFd process;                         // pidfd, if the peer is another process of this pid namespace
};

struct MeshOptions {
  std::string host_id;                     // "" = LocalHostId()
  std::chrono::milliseconds notice{5000};  // delay until ranks that do not answer are reported
  // Limit for connecting once all addresses are known; only an unreachable live peer causes no other event.
  std::chrono::seconds timeout{60};
};

/// Connects this rank to all others; every rank must call it. Passes `segment_fd` to local peers. Returns
/// world_size entries; this rank's own has only a host. kAborted if `bootstrap` is aborted; kUnavailable if a peer,
/// named in the message, dies or cannot be reached. Drops unauthenticated connections. Listens only during
/// the call.
absl::StatusOr<std::vector<Peer>> ConnectMesh(const GroupMember& membership, Bootstrap& bootstrap,
                                              int segment_fd, const MeshOptions& options);

}  // namespace mtrun::collectives
