// Report of a worker that cannot connect to any worker of another node.
#pragma once

#include <cstdint>

#include "base/worker_channel.h"
#include "rendezvous/wire/fields.h"

namespace mtrun::rendezvous {

/// A worker of the generation has tried for seconds to connect to a worker of another node, and nothing
/// answers there.
struct PeerUnreached {
  channel::Generation generation;
  int rank = 0;  // the rank that tries
  int peer = 0;  // the rank that it does not reach
  bool operator==(const PeerUnreached&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("generation", self.generation);
    field("rank", self.rank, Range{0, int64_t{kMaxNodes} * kMaxWorkersPerNode});
    field("peer", self.peer, Range{0, int64_t{kMaxNodes} * kMaxWorkersPerNode});
  }
};

}  // namespace mtrun::rendezvous
