// The collectives as sequences of phases (transport.h). All ranks of a group call the same operation with
// equal arguments.
//
// Scheme: a small message goes whole from everybody to everybody in one phase, and each rank reduces all of
// it. A larger one goes in blocks, and each block in two phases (Rabenseifner's reduce-scatter and
// all-gather, with direct reads instead of steps): rank r reads its chunk (ChunkOf) from all ranks, sums it
// in rank order and exposes the result; then everybody reads the others' results. In both cases element i is
// ((x0 + x1) + x2) + ... in rank order, whatever ranks share a host. Notes travel behind a small message, and
// with a large one in the phase that ends it.
//
// Memory inside the own segment (Group::Allocate) is read by the peers in place and results are written in
// place; other memory is copied through the slots, block by block, so that it passes through the cache.
//
// Errors are those of Transport::Exchange; the buffers then hold neither input nor result.
#pragma once

#include "absl/status/status.h"
#include "trainers/collectives/transport.h"

namespace mtrun::collectives {

/// In place. `call`: count, dtype, reduce, note. `notes`: of call.note bytes, null without.
absl::Status AllReduce(Transport& transport, const Call& call, void* data, Notes* notes = nullptr);
/// In place. `call`: count, dtype, root.
absl::Status Broadcast(Transport& transport, const Call& call, void* data);
/// `outputs[r]` receives rank r's `input`, call.count elements each; outputs[own rank] may be `input`.
absl::Status AllGather(Transport& transport, const Call& call, const void* input,
                       const std::vector<void*>& outputs);
absl::Status Barrier(Transport& transport, const Call& call);

}  // namespace mtrun::collectives
