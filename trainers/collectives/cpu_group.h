// The door between LibTorch and the CPU collectives: a c10d::ProcessGroup over shared memory and TCP (see
// group.h).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "absl/status/statusor.h"
#include "trainers/collectives/bootstrap.h"

namespace mtrun::collectives {

using ProcessGroup = c10::intrusive_ptr<c10d::ProcessGroup>;

/// Connects the members of one generation; every member calls it. `bootstrap` must outlive the group. A world
/// of one needs no bootstrap and opens nothing.
absl::StatusOr<ProcessGroup> ConnectCpuGroup(const GroupMember& membership,
                                             std::shared_ptr<Bootstrap> bootstrap);

/// A zeroed flat tensor [numel] inside this rank's shared segment: all-reducing exactly this tensor copies
/// nothing in or out. Falls back to ordinary memory for groups that are not ours (NCCL) or where no peer is
/// on this host. The memory lives as long as the tensor. Every rank must make the same sequence of calls.
at::Tensor SharedTensor(const ProcessGroup& group, int64_t numel, at::ScalarType dtype);

/// Ends every blocked and later call of the group with an error that carries `why`. Any thread.
void AbortGroup(const ProcessGroup& group, std::string_view why);

}  // namespace mtrun::collectives
