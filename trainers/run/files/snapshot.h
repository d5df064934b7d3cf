// A run's tensors as a checkpoint holds them: copied out of training at once, and back. Training thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "trainers/checkpoints/checkpoint.h"
#include "trainers/weights/safetensors.h"

namespace mtrun::trainers {

/// Host memory for snapshots, reused once earlier snapshots are on the disk.
class SnapshotMemory {
 public:
  /// Copies everything; training can continue at once. On a GPU the copies run in its stream before the next
  /// step. If they overlapped it, the statistics of batch normalisation would be needed twice, because a
  /// forward pass changes them. `weights` go to the model's file, `rest` to the optimizer's.
  /// kInvalidArgument: files lack a dtype. Other failures, such as a lack of memory, are reported by the
  /// snapshot's `arrived`: its checkpoint fails as if the disk were full, and training continues.
  absl::StatusOr<checkpoints::Snapshot> Take(int64_t step, const NamedTensors& weights,
                                             const NamedTensors& rest, std::string state);

 private:
  std::shared_ptr<at::Tensor> Bytes(int64_t size, at::Device device);
  // As many as the snapshots that were in use at once, three at most.
  std::vector<std::shared_ptr<at::Tensor>> blocks_;
};

/// Copies a checkpoint's tensors into a run. kInvalidArgument names what does not fit. In that case nothing
/// was copied, or only the weights (if the optimizer's tensors do not fit).
absl::Status Restore(const checkpoints::Checkpoint& checkpoint, const NamedTensors& weights,
                     const NamedTensors& rest);

}  // namespace mtrun::trainers
