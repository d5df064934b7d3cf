// The process group for a device. The CPU group is always there: it exchanges positions, texts and counts,
// and it detects that a member is gone. For CUDA tensors NCCL stands beside it in the same
// c10d::ProcessGroup, and is aborted as soon as the CPU group breaks.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainers/collectives/cpu_group.h"

namespace mtrun::collectives {

/// ConnectCpuGroup, and with a CUDA `device` NCCL on it. Every member calls it, all with the same kind of
/// device. kFailedPrecondition: CUDA where the program was built without (MT_CUDA).
absl::StatusOr<ProcessGroup> ConnectGroup(const GroupMember& membership, std::shared_ptr<Bootstrap> bootstrap,
                                          at::Device device);

/// OK while the group works; null: OK. A collective on CUDA tensors ends with undefined numbers when it was
/// aborted: whoever has waited for the device asks here before the numbers are used. Any thread.
absl::Status GroupStatus(const ProcessGroup& group);

}  // namespace mtrun::collectives
