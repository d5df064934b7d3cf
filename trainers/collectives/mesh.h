// Connects every rank of a generation with every other: abstract Unix sockets within a host, TCP between
// hosts.
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

/// One other rank and what leads to it.
struct Peer {
  int rank = -1;
  std::string name;  // "rank 1 (pid 77 on node2)"
  bool local = false;
  UniqueFd control;                         // non-blocking; shutdown notices; closed when the peer ends
  UniqueFd data;                            // non-blocking; remote peers only
  std::unique_ptr<FrameCipher> seal, open;  // what goes over `data`, and what comes
  UniqueFd segment;                         // read-only; local peers only
  UniqueFd process;                         // pidfd; where the peer is another process of this pid namespace
};

struct MeshOptions {
  std::string host_id;                     // "" = LocalHostId()
  std::chrono::milliseconds notice{5000};  // after which ranks that do not answer are told of
  std::chrono::seconds timeout{60};        // for the connections once all addresses are known: the only thing
                                           // without an event is a peer that is alive but cannot be reached
};

/// Collective. `segment_fd`: what local peers receive. Returns world_size entries; the one of this rank is
/// empty. Ends with kAborted when `bootstrap` is aborted, kUnavailable when a peer dies or cannot be reached
/// (named in the text). Strangers' connections are dropped. Listeners are open only while this runs.
absl::StatusOr<std::vector<Peer>> ConnectMesh(const GroupMember& membership, Bootstrap& bootstrap,
                                              int segment_fd, const MeshOptions& options);

}  // namespace mtrun::collectives
