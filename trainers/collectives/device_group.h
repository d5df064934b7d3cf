// The process group for a device. The CPU group is always there: it exchanges positions, texts, counts and
// the records that commit a step, and it detects that a member is gone. For tensors of a device a DeviceGroup
// stands beside it in the same c10d::ProcessGroup, and breaks with it (device_watch.h).
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

/// A Device that sums tensors. Its sums may end with garbage: see Commit.
class DeviceGroup : public Device {
 public:
  /// Whether it sums this one; the CPU group does the others.
  virtual bool Takes(const at::Tensor& tensor) const = 0;
  /// In place, in the order of the calls; the work's wait() makes the device wait, not this thread.
  virtual c10::intrusive_ptr<c10d::Work> StartAllReduce(const at::Tensor& tensor,
                                                        c10d::ReduceOp::RedOpType reduce) = 0;
  /// Rank `root`'s values for all, in the same order as the sums.
  virtual c10::intrusive_ptr<c10d::Work> StartBroadcast(const at::Tensor& tensor, int root) = 0;
  /// What c10d hands the device's tensors to, once connected; null: nothing.
  virtual c10::intrusive_ptr<c10d::Backend> backend() { return nullptr; }
};

/// Makes a member's, unconnected. `bootstrap` outlives it.
using DeviceMaker =
    std::function<std::shared_ptr<DeviceGroup>(const GroupMember&, std::shared_ptr<Bootstrap> bootstrap)>;

/// ConnectCpuGroup, and on it what `make` makes. Every member calls it. A member that dies meanwhile is an
/// error on all.
absl::StatusOr<ProcessGroup> ConnectDeviceGroup(const GroupMember& membership,
                                                std::shared_ptr<Bootstrap> bootstrap,
                                                const DeviceMaker& make);

/// For the tensors of `device`: the CPU group, with what `devices` makes on it; where that is null, with CUDA
/// NCCL. Members say first whether they have one: where only some do none is connected, for that would wait
/// for ever, and the group is good for no more than finding out who differs (CheckAgreement does).
/// kFailedPrecondition: CUDA where the program was built without (MT_CUDA).
absl::StatusOr<ProcessGroup> ConnectGroup(const GroupMember& membership, std::shared_ptr<Bootstrap> bootstrap,
                                          at::Device device, const DeviceMaker& devices = nullptr);

/// Null where no device stands beside the CPU group, or there is no group.
DeviceGroup* DeviceOf(const ProcessGroup& group);
DeviceWatch* WatchOf(const ProcessGroup& group);
/// The device that sums such tensors; null: the CPU group does.
DeviceGroup* DeviceFor(const ProcessGroup& group, const at::Tensor& tensor);

/// OK while the group works, and its device; null: OK. Any thread.
absl::Status GroupStatus(const ProcessGroup& group);

/// Behind results of the device that this member has waited for and read: OK if they are whole on every
/// member, so that all of them may build on them. A collective of the CPU group that nobody enters whose
/// device was aborted. OK at once where there is no device.
absl::Status Commit(const ProcessGroup& group);
/// The same, and everybody hears everybody's note by it, by rank; also where there is no device. Throws what
/// the group throws.
absl::StatusOr<std::vector<std::string>> CommitNotes(const ProcessGroup& group, const std::string& own);

/// How long this member has waited for others so far: in a collective of the CPU group, or with its device,
/// whose own part is done. Zero when it does not. Any thread.
Duration WaitingFor(const ProcessGroup& group);

}  // namespace mtrun::collectives
