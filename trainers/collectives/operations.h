// The collectives as sequences of phases (transport.h). All ranks call the same operation with equal
// arguments.
//
// Scheme: a small message goes whole from every rank to every other in one phase, and each rank reduces all
// of it. Within a host a larger one goes in blocks of two phases each (Rabenseifner's reduce-scatter and
// all-gather, with direct reads instead of steps). Rank r reads its chunk (ChunkOf) from all ranks, sums it
// and exposes the result; then all ranks read each other's results. Over several hosts see host_reduce.h.
// Notes follow a small message in its phase; for a large one they are sent in the phases that end it.
//
// In all of them the order of the additions is that of a TreePlan, whatever ranks share a host. A rank can
// have several inputs, its partial sums, one behind the other.
//
// Peers read memory in this rank's segment (Group::Allocate) in place, and results are written in place.
// Other memory is copied through the slots block by block, so that it passes through the cache.
//
// Errors are those of Transport::Exchange. After an error the buffers hold neither input nor result.
#pragma once

#include "absl/status/status.h"
#include "trainers/collectives/transport.h"
#include "trainers/collectives/tree_sum.h"

namespace mtrun::collectives {

/// Reduces `data` in place, in the order of `plan`; sums of bfloat16, which are rounded once, in that of the
/// ranks. `call`: count, dtype, reduce, note; for partial sums the digest of `plan` as root. `data`: this
/// rank's inputs, call.count elements each, at least room for one; the result replaces the first. `notes`:
/// call.note bytes, or null.
absl::Status AllReduce(Transport& transport, const Call& call, void* data, const TreePlan& plan,
                       Notes* notes = nullptr);
/// Broadcasts `data` in place. `call`: count, dtype, root.
absl::Status Broadcast(Transport& transport, const Call& call, void* data);
/// Copies rank r's `input`, call.count elements, to `outputs[r]`. outputs[own rank] may be `input`.
absl::Status AllGather(Transport& transport, const Call& call, const void* input,
                       const std::vector<void*>& outputs);
absl::Status Barrier(Transport& transport, const Call& call);

}  // namespace mtrun::collectives
