// NCCL as a device group.
#pragma once

#include "absl/status/statusor.h"
#include "trainers/collectives/device_group.h"

namespace mtrun::collectives {

/// For members with a CUDA device each, of which this is the caller's. kFailedPrecondition where the program
/// was built without (MT_CUDA).
absl::StatusOr<DeviceMaker> NcclDevices(at::Device device);

}  // namespace mtrun::collectives
