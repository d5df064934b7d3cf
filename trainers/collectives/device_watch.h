// Makes a device and the CPU group of its generation fail together, on all members.
#pragma once

#include <cstdint>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/posix.h"
#include "trainers/collectives/device.h"
#include "trainers/collectives/group.h"

namespace mtrun::collectives {

class DeviceWatch {
 public:
  /// Connects `device`. If the group fails first, as it does if a member dies, returns the group's status and
  /// leaves the device to a thread of its own, which aborts it as soon as possible. If the device cannot
  /// connect, the group ends on all members. `group` must outlive the returned object.
  static absl::StatusOr<std::unique_ptr<DeviceWatch>> Connect(std::shared_ptr<Device> device, Group& group);
  /// Does not abort the device.
  ~DeviceWatch();

  /// Returns OK while the group and the device work; earlier sums are then valid. Any thread.
  absl::Status status() const;

  /// Returns how long the device has been waiting for others with no work of its own, wherever the training
  /// thread is; accurate to about kLookEvery. If a member leaves in order during such a wait, the group
  /// fails, because the sums would never end. Any thread.
  Duration waiting_for() const;

  /// Interval between two checks of the device.
  static constexpr std::chrono::milliseconds kLookEvery{100};

 private:
  DeviceWatch(std::shared_ptr<Device> device, Group& group);
  void Run();
  void LookAtDevice();
  void NoteWait(uint64_t wait);

  const std::shared_ptr<Device> device_;
  Group& group_;
  const UniqueFd stop_;
  mutable Mutex mu_;
  uint64_t wait_ ABSL_GUARDED_BY(mu_) = 0;  // the device's wait at the last check; 0: none
  TimePoint waits_since_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

/// Call it last before main() returns `status`. If an abandoned connect may still have a thread inside NCCL,
/// it flushes all output and ends the process, because exit() would destroy objects that the thread uses.
void ExitBesideConnects(int status);

}  // namespace mtrun::collectives
