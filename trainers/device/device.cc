#include "trainers/device/device.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace mtrun::trainers {

absl::StatusOr<DeviceChoice> ChooseDevice(const std::string& wanted, int gpus, int local_rank,
                                          int local_world_size) {
  if (wanted == "cpu" || (wanted == "auto" && gpus == 0)) return DeviceChoice{};
  if (gpus == 0) {
    return absl::InvalidArgumentError(
        "--device cuda: no GPU is usable here (no driver, no GPU, or a CPU-only LibTorch)");
  }
  if (local_rank >= gpus) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--device ", wanted, ": worker ", local_rank, " on this node has no GPU of its own; it sees ",
        gpus == 1 ? "1 GPU" : absl::StrCat(gpus, " GPUs"), " for ",
        std::max(local_world_size, local_rank + 1), " workers: start ", gpus, " (--nproc_per_node ", gpus,
        "), let each see all GPUs of the node (CUDA_VISIBLE_DEVICES), or give --device cpu"));
  }
  return DeviceChoice{true, local_rank};
}

}  // namespace mtrun::trainers
