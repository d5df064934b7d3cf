// Keeps a device and the CPU group of its generation together: what breaks one breaks the other, on all
// members.
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
  /// Connects `device`. When the group fails first, which it does when a member dies, this ends with the
  /// group's status and leaves the device to a thread of its own, which aborts it as soon as it can. A device
  /// that cannot connect ends the group for all. `group` must outlive what is returned.
  static absl::StatusOr<std::unique_ptr<DeviceWatch>> Connect(std::shared_ptr<Device> device, Group& group);
  /// The device is not aborted.
  ~DeviceWatch();

  /// OK while group and device work: numbers that were summed before count. Any thread.
  absl::Status status() const;

  /// How long the device has waited for others, its own work being done, wherever the training thread is. To
  /// about kLookEvery; any thread. A member that leaves in order meanwhile leaves sums that never end, so
  /// that breaks the group.
  Duration waiting_for() const;

  /// Between two looks at the device.
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
  uint64_t wait_ ABSL_GUARDED_BY(mu_) = 0;  // that the device was in at the last look; 0: none
  TimePoint waits_since_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

/// The last thing before main() returns `status`. Where a connect was given up its thread may still be inside
/// of NCCL. What exit() destroys would go from under it, and the process would end by a signal instead: so
/// the process ends here then, with all that it has printed.
void ExitBesideConnects(int status);

}  // namespace mtrun::collectives
