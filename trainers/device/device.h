// Chooses the device that a worker computes on. Independent of LibTorch; a pure function.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace mtrun::trainers {

struct DeviceChoice {
  bool cuda = false;
  int index = 0;  // GPU number among those that the process sees
  bool operator==(const DeviceChoice&) const = default;
};

/// Chooses a device. `wanted`: "auto" (a GPU if there is one), "cpu" or "cuda". `gpus`: usable ones that the
/// process sees. Worker `local_rank` takes the GPU of that number. kInvalidArgument: cuda without a GPU, or
/// more workers on this node than GPUs; a worker that silently computed elsewhere would slow down all others.
absl::StatusOr<DeviceChoice> ChooseDevice(const std::string& wanted, int gpus, int local_rank,
                                          int local_world_size);

}  // namespace mtrun::trainers
