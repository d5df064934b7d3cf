// The process group for a device. The CPU group always exists: it exchanges positions, texts, counts and the
// records that commit a step, and it detects that a member is gone. A DeviceGroup in the same
// c10d::ProcessGroup handles the device's tensors. If one of them fails, so does the other (device_watch.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "trainers/collectives/cpu_group.h"
#include "trainers/collectives/device.h"
#include "trainers/collectives/device_watch.h"

namespace mtrun::collectives {

/// A Device that sums tensors. Its results are valid only after Commit, because an abort can leave garbage.
class DeviceGroup : public Device {
 public:
  /// Returns true if the device sums `tensor`; the CPU group sums all others.
  virtual bool Takes(const at::Tensor& tensor) const = 0;
  /// Starts an all-reduce in place, in the order of the calls; its work's wait() makes only the device wait.
  virtual c10::intrusive_ptr<c10d::Work> StartAllReduce(const at::Tensor& tensor,
                                                        c10d::ReduceOp::RedOpType reduce) = 0;
  /// Starts a broadcast of rank `root`'s values, in the same order as the all-reduces.
  virtual c10::intrusive_ptr<c10d::Work> StartBroadcast(const at::Tensor& tensor, int root) = 0;
  /// Returns c10d's backend for the device's tensors, after Connect; null if there is none.
  virtual c10::intrusive_ptr<c10d::Backend> backend() { return nullptr; }
};

/// Makes one member's DeviceGroup, not yet connected. `bootstrap` outlives it.
using DeviceMaker =
    std::function<std::shared_ptr<DeviceGroup>(const GroupMember&, std::shared_ptr<Bootstrap> bootstrap)>;

/// Connects the members of one generation for tensors of `device`, with the device that `devices` makes; all
/// of them must call it. If `devices` is null, CUDA uses NCCL and a CPU no device. Members first tell each
/// other if they have a device. If only some do, none is connected, because that would block forever; the
/// group then only serves to find out which members differ (CheckAgreement). If a member dies during the
/// call, it fails on all of them. A world of one needs no bootstrap, sockets or shared memory.
/// kFailedPrecondition: CUDA, but the program was built without it (MT_CUDA).
absl::StatusOr<ProcessGroup> ConnectGroup(const GroupMember& membership, std::shared_ptr<Bootstrap> bootstrap,
                                          at::Device device, const DeviceMaker& devices = nullptr);

/// Return the group's device and its watch; null if it has no device or `group` is null.
DeviceGroup* DeviceOf(const ProcessGroup& group);
DeviceWatch* WatchOf(const ProcessGroup& group);
/// Returns the device that sums `tensor`; null if the CPU group does.
DeviceGroup* DeviceFor(const ProcessGroup& group, const at::Tensor& tensor);

/// Returns OK while the group and its device work, or if `group` is null. Any thread.
absl::Status GroupStatus(const ProcessGroup& group);

/// Returns OK if the device's results, which this member has waited for and read, are complete on all
/// members. Then all of them may build on the results. It is a collective of the CPU group; a member whose
/// device was aborted does not enter it. Returns OK at once if there is no device.
absl::Status Commit(const ProcessGroup& group);
/// Like Commit, and returns all members' notes by rank, even without a device. Throws the group's errors.
absl::StatusOr<std::vector<std::string>> CommitNotes(const ProcessGroup& group, const std::string& own);

/// Returns how long this member has been waiting for others, in a collective of the CPU group or with a
/// device that has no work of its own left. Zero if it is not waiting. Any thread.
Duration WaitingFor(const ProcessGroup& group);

}  // namespace mtrun::collectives
