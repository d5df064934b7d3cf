// A run's tensors as a checkpoint holds them: copied out of training in one go, and back again. Training
// thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "trainers/checkpoints/checkpoint.h"
#include "trainers/engine/safetensors.h"

namespace mtrun::engine {

/// Host memory that snapshots use again when the one before is on the disk.
class SnapshotMemory {
 public:
  /// Copies everything; training may go on at once. `weights` become the model's file, `rest` the
  /// optimizer's. kInvalidArgument for a dtype that files lack.
  absl::StatusOr<checkpoints::Snapshot> Take(int64_t step, const NamedTensors& weights,
                                             const NamedTensors& rest, std::string state);

 private:
  std::shared_ptr<std::vector<uint8_t>> Bytes(size_t size);
  std::shared_ptr<std::vector<uint8_t>> last_;
};

/// Copies a checkpoint's tensors into a run. kInvalidArgument says what does not fit; then nothing was copied
/// or (when the optimizer's do not) the weights alone.
absl::Status Restore(const checkpoints::Checkpoint& checkpoint, const NamedTensors& weights,
                     const NamedTensors& rest);

}  // namespace mtrun::engine
