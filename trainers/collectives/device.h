// What stands beside the CPU group of a generation where gradients lie on devices that have a network of
// their own (NCCL; tests have one of memory): the part that knows no tensors. It learns nothing of a dead
// member by itself, and where it was aborted it may end sums with garbage: DeviceWatch and the step's record
// see to both.
#pragma once

#include <cstdint>

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
  /// Around each wait for what others contribute, in the order of the device's work, which this thread may be
  /// far ahead of (Waiting does it). What was begun before is own work. Training thread.
  virtual void BeginWait() = 0;
  virtual void EndWait() = 0;
  /// The wait that the device has come to and is not past, by its number from 1. 0: none; it has own work, or
  /// nothing to do. Any thread.
  virtual uint64_t CurrentWait() = 0;
};

/// `body` makes the device wait. Null: there is none. An exception leaves the wait open: it ends the group.
template <typename Body>
void Waiting(Device* device, const Body& body) {
  if (device != nullptr) device->BeginWait();
  body();
  if (device != nullptr) device->EndWait();
}

}  // namespace mtrun::collectives
