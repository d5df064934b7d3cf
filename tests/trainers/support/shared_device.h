// A device group between processes, for real programs on machines without devices: a separate CPU group that
// behaves like NCCL. It connects by itself and waits for dead members. Its sums end asynchronously in a
// stream; if it was aborted, here or by a neighbour, they end with garbage and without an error.
#pragma once

#include "absl/status/statusor.h"
#include "trainers/collectives/device_group.h"

namespace mtrun::trainers::testing {

/// Returns a maker of devices that accompany the CPU group of each generation. MTRUN_DEVICE_FAULT="rank=1
/// sum=20 do=error" injects a fault in the job's first generation. Before its sum of that number, counted
/// from 1, the device of the rank reports an `error`, or it `hang`s, which stops its sums and its own work.
/// With sum=0 and `kill`, its worker is killed while it connects. A fault is reported on standard error when
/// it fires. Returns kInvalidArgument if `fault` is invalid.
absl::StatusOr<collectives::DeviceMaker> SharedDevices(const char* fault);

}  // namespace mtrun::trainers::testing
