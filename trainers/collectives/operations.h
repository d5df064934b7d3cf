// The collectives as sequences of phases (transport.h). All ranks call the same operation with equal
// arguments.
//
// Scheme: a small message goes whole from every rank to every other in one phase, and each rank reduces all
// of it. A larger message goes in blocks of two phases each (Rabenseifner's reduce-scatter and all-gather,
// with direct reads instead of steps). Rank r reads its chunk (ChunkOf) from all ranks, sums it in rank order
// and exposes the result; then all ranks read each other's results. In both cases element i is
// ((x0 + x1) + x2) + ... in rank order, whatever ranks share a host. Notes follow a small message in its
// phase; for a large one they are sent in the phase that ends it.
//
// With a TreePlan the order is the plan's instead of that of the ranks, and a rank has several inputs, its
// partial sums, one behind the other. Their chunks travel together.
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

/// Reduces `data` in place. `call`: count, dtype, reduce, note; with `plan` its digest as root. `notes`:
/// call.note bytes, or null. With `plan`, `data` has this rank's partial sums, call.count elements each, at
/// least room for one; the sum replaces the first.
absl::Status AllReduce(Transport& transport, const Call& call, void* data, Notes* notes = nullptr,
                       const TreePlan* plan = nullptr);
/// Broadcasts `data` in place. `call`: count, dtype, root.
absl::Status Broadcast(Transport& transport, const Call& call, void* data);
/// Copies rank r's `input`, call.count elements, to `outputs[r]`. outputs[own rank] may be `input`.
absl::Status AllGather(Transport& transport, const Call& call, const void* input,
                       const std::vector<void*>& outputs);
absl::Status Barrier(Transport& transport, const Call& call);

}  // namespace mtrun::collectives
