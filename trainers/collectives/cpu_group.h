// Offers the CPU collectives to LibTorch: a c10d::ProcessGroup over shared memory and TCP (group.h).
#pragma once

#include <string_view>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace mtrun::collectives {

using ProcessGroup = c10::intrusive_ptr<c10d::ProcessGroup>;

/// Returns a zeroed flat tensor [numel] in this rank's shared segment: an all-reduce of exactly this tensor
/// copies nothing in or out. Uses ordinary memory if the group is not mtrun's (NCCL) or no peer is on this
/// host. The memory lives as long as the tensor. All ranks must make the same sequence of calls.
at::Tensor SharedTensor(const ProcessGroup& group, int64_t numel, at::ScalarType dtype);

/// Ends all blocked and later calls of the group with an error that contains `why`. Any thread.
void AbortGroup(const ProcessGroup& group, std::string_view why);

}  // namespace mtrun::collectives
