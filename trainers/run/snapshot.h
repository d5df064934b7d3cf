// A run's tensors as a checkpoint holds them: copied out of training in one go, and back again. Training
// thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "trainers/checkpoints/checkpoint.h"
#include "trainers/weights/safetensors.h"

namespace mtrun::trainers {

/// Host memory that snapshots use again when those before are on the disk.
class SnapshotMemory {
 public:
  /// Copies everything; training may go on at once. From a GPU the copies run in its stream, ahead of the
  /// next step: what would overlap them with it has to keep the statistics of batch normalisation twice,
  /// which a forward pass changes. `weights` become the model's file, `rest` the optimizer's.
  /// kInvalidArgument for a dtype that files lack. What fails otherwise, memory that is out for example, is
  /// the snapshot's `arrived` to say: its checkpoint fails as one does whose disk is full, and training goes
  /// on.
  absl::StatusOr<checkpoints::Snapshot> Take(int64_t step, const NamedTensors& weights,
                                             const NamedTensors& rest, std::string state);

 private:
  std::shared_ptr<at::Tensor> Bytes(int64_t size, at::Device device);
  std::vector<std::shared_ptr<at::Tensor>>
      blocks_;  // as many as snapshots were in use at once, three at most
};

/// Copies a checkpoint's tensors into a run. kInvalidArgument says what does not fit; then nothing was copied
/// or (when the optimizer's do not) the weights alone.
absl::Status Restore(const checkpoints::Checkpoint& checkpoint, const NamedTensors& weights,
                     const NamedTensors& rest);

}  // namespace mtrun::trainers
