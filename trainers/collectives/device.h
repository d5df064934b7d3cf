// A device of one generation that has a network of its own (NCCL; tests simulate one in memory) and is used
// beside the CPU group. This is the part without tensors. A device does not notice a dead member, and its
// sums may end with garbage after an abort: DeviceWatch and the step's record handle both.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace mtrun::collectives {

class Device {
 public:
  virtual ~Device() = default;

  /// Connects to the other members. Call it once, before all other methods. It can block forever, because it
  /// does not notice if a member dies. Any thread.
  virtual absl::Status Connect() = 0;
  /// Returns an asynchronous error of the network or the device; OK if there is none. Quick; any thread.
  virtual absl::Status Error() = 0;
  /// Ends all running and later sums, with undefined results. Any thread; may be called repeatedly.
  virtual void Abort() = 0;
  /// Mark the begin and end of a wait for other members in the order of the device's work, which the calling
  /// thread may be far ahead of (see Waiting). Work submitted earlier is the device's own. Training thread.
  virtual void BeginWait() = 0;
  virtual void EndWait() = 0;
  /// Returns the number, from 1, of the wait that the device is in; 0 if it is computing or idle. Any thread.
  virtual uint64_t CurrentWait() = 0;
};

/// Calls `body`, which makes the device wait, between BeginWait and EndWait. `device` may be null. If `body`
/// throws, the wait stays open: the exception ends the group.
template <typename Body>
void Waiting(Device* device, const Body& body) {
  if (device != nullptr) device->BeginWait();
  body();
  if (device != nullptr) device->EndWait();
}

}  // namespace mtrun::collectives
