#include "trainers/collectives/device_group.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainers/collectives/cpu_backend.h"
#include "trainers/collectives/nccl_device.h"

namespace mtrun::collectives {
namespace {

class WatchedGroup : public c10d::ProcessGroup {
 public:
  using ProcessGroup::ProcessGroup;
  std::shared_ptr<DeviceGroup> device;
  std::unique_ptr<DeviceWatch> watch;  // goes before the back-ends do
};

WatchedGroup* Watched(const ProcessGroup& group) { return dynamic_cast<WatchedGroup*>(group.get()); }

}  // namespace

absl::StatusOr<ProcessGroup> ConnectDeviceGroup(const GroupMember& membership,
                                                std::shared_ptr<Bootstrap> bootstrap,
                                                const DeviceMaker& make) {
  MT_ASSIGN_OR_RETURN(auto core, Group::Connect(membership, bootstrap.get()));
  try {
    Group& members = *core;
    auto group = c10::make_intrusive<WatchedGroup>(membership.rank, membership.world_size);
    AddCpuBackend(*group, std::move(core));
    group->device = make(membership, std::move(bootstrap));
    MT_ASSIGN_OR_RETURN(group->watch, DeviceWatch::Connect(group->device, members));
    if (const auto backend = group->device->backend()) {
      group->setBackend(c10::DeviceType::CUDA, c10d::ProcessGroup::BackendType::NCCL, backend);
    }
    return group;
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat("connect the devices: ", error.what()));
  }
}

absl::StatusOr<ProcessGroup> ConnectGroup(const GroupMember& membership, std::shared_ptr<Bootstrap> bootstrap,
                                          at::Device device) {
  if (!device.is_cuda()) return ConnectCpuGroup(membership, std::move(bootstrap));
  MT_ASSIGN_OR_RETURN(const DeviceMaker make, NcclDevices(device));
  return ConnectDeviceGroup(membership, std::move(bootstrap), make);
}

DeviceGroup* DeviceOf(const ProcessGroup& group) {
  const WatchedGroup* const watched = Watched(group);
  return watched == nullptr ? nullptr : watched->device.get();
}

DeviceWatch* WatchOf(const ProcessGroup& group) {
  const WatchedGroup* const watched = Watched(group);
  return watched == nullptr ? nullptr : watched->watch.get();
}

absl::Status GroupStatus(const ProcessGroup& group) {
  if (!group) return absl::OkStatus();
  if (const DeviceWatch* const watch = WatchOf(group)) return watch->status();
  CpuBackend* const backend = CpuBackendOf(*group);
  return backend == nullptr ? absl::OkStatus() : backend->group().status();
}

absl::Status Commit(const ProcessGroup& group) {
  if (DeviceOf(group) == nullptr) return absl::OkStatus();
  MT_RETURN_IF_ERROR(GroupStatus(group));
  return CpuBackendOf(*group)->group().Barrier()->Wait();
}

Duration WaitingFor(const ProcessGroup& group) {
  if (!group) return Duration::zero();
  const DeviceWatch* const watch = WatchOf(group);
  const Duration sums = watch == nullptr ? Duration::zero() : watch->waiting_for();
  CpuBackend* const backend = CpuBackendOf(*group);
  return backend == nullptr ? sums : std::max(sums, backend->group().waiting_for());
}

}  // namespace mtrun::collectives
