// NCCL as a device group.
#pragma once

#include "absl/status/statusor.h"
#include "trainers/collectives/device_group.h"

namespace mtrun::collectives {

/// Returns a maker of NCCL groups, for members that have a CUDA device each; `device` is the caller's.
/// kFailedPrecondition if the program was built without CUDA (MT_CUDA).
absl::StatusOr<DeviceMaker> NcclDevices(at::Device device);

}  // namespace mtrun::collectives
