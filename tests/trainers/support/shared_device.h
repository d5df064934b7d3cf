// A device group between processes, for real programs on machines without devices: a CPU group of its own
// that behaves as NCCL does. It meets the others by itself and waits for the dead; its sums end by themselves
// in a stream; where it was aborted, here or by a neighbour, they end with garbage and nobody says so.
#pragma once

#include "absl/status/statusor.h"
#include "trainers/collectives/device_group.h"

namespace mtrun::trainers::testing {

/// Beside the CPU group of each generation. MTRUN_DEVICE_FAULT="rank=1 sum=20 do=error" orders one, in the
/// job's first generation: before its sum of that number, from 1 on, the device of the rank reports an
/// `error`, or it `hang`s, which takes its sums and its own work with it; with sum=0 its worker is killed
/// while it connects (`kill`). A fault that fires says so on standard error. kInvalidArgument: it is none.
absl::StatusOr<collectives::DeviceMaker> SharedDevices(const char* fault);

}  // namespace mtrun::trainers::testing
