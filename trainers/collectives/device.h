// What stands beside the CPU group of a generation where gradients lie on devices that have a network of
// their own (NCCL; tests have one of memory): the part that knows no tensors. It learns nothing of a dead
// member by itself, and where it was aborted it may end sums with garbage: DeviceWatch and the step's record
// see to both.
#pragma once

#include "absl/status/status.h"

namespace mtrun::collectives {

class Device {
 public:
  virtual ~Device() = default;

  /// Meets the other members; once, before all others. May take for ever: a member that dies meanwhile is not
  /// noticed here. Any thread.
  virtual absl::Status Connect() = 0;
  /// What has gone wrong without anybody waiting for it: in the network, or on the device. OK so far. Quick;
  /// any thread.
  virtual absl::Status Error() = 0;
  /// Every sum under way and to come ends, with whatever numbers. Any thread, as often as one likes.
  virtual void Abort() = 0;
  /// Whatever this worker has begun so far, but for sums, is `own work` from here on. Training thread.
  virtual void MarkOwnWork() = 0;
  /// Whether the device has done it. Any thread.
  virtual bool OwnWorkIsDone() = 0;
};

}  // namespace mtrun::collectives
