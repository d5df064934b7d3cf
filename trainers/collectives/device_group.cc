#include "trainers/collectives/device_group.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainers/collectives/all_reduce.h"
#include "trainers/collectives/cpu_backend.h"
#include "trainers/collectives/nccl_device.h"

namespace mtrun::collectives {
namespace {

class WatchedGroup : public c10d::ProcessGroup {
 public:
  using ProcessGroup::ProcessGroup;
  std::shared_ptr<DeviceGroup> device;
  std::unique_ptr<DeviceWatch> watch;  // destroyed before the backends
};

WatchedGroup* Watched(const ProcessGroup& group) { return dynamic_cast<WatchedGroup*>(group.get()); }

absl::Status AddDevice(WatchedGroup& group, const GroupMember& membership,
                       std::shared_ptr<Bootstrap> bootstrap, const DeviceMaker& make) {
  group.device = make(membership, std::move(bootstrap));
  MT_ASSIGN_OR_RETURN(group.watch, DeviceWatch::Connect(group.device, CpuBackendOf(group)->group()));
  if (const auto backend = group.device->backend()) {
    group.setBackend(c10::DeviceType::CUDA, c10d::ProcessGroup::BackendType::NCCL, backend);
  }
  return absl::OkStatus();
}

/// Tells all members if this one has a device of its own; returns true if all have one.
bool AllHaveDevices(const ProcessGroup& group, bool own) {
  const std::vector<std::string> all = AllGather(group, own ? "device" : "memory");
  return std::count(all.begin(), all.end(), "device") == group->getSize();
}

}  // namespace

absl::StatusOr<ProcessGroup> ConnectGroup(const GroupMember& membership, std::shared_ptr<Bootstrap> bootstrap,
                                          at::Device device, const DeviceMaker& devices) {
  DeviceMaker make = devices;
  if (!make && device.is_cuda()) {
    MT_ASSIGN_OR_RETURN(make, NcclDevices(device));
  }
  try {
    MT_ASSIGN_OR_RETURN(auto core, Group::Connect(membership, bootstrap.get()));
    const auto group = c10::make_intrusive<WatchedGroup>(membership.rank, membership.world_size);
    AddCpuBackend(*group, std::move(core));
    const bool all = AllHaveDevices(group, make != nullptr);
    if (make && all) MT_RETURN_IF_ERROR(AddDevice(*group, membership, std::move(bootstrap), make));
    return group;
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat("connect the devices: ", error.what()));
  }
}

DeviceGroup* DeviceOf(const ProcessGroup& group) {
  const WatchedGroup* const watched = Watched(group);
  return watched == nullptr ? nullptr : watched->device.get();
}

DeviceWatch* WatchOf(const ProcessGroup& group) {
  const WatchedGroup* const watched = Watched(group);
  return watched == nullptr ? nullptr : watched->watch.get();
}

DeviceGroup* DeviceFor(const ProcessGroup& group, const at::Tensor& tensor) {
  DeviceGroup* const device = DeviceOf(group);
  return device != nullptr && device->Takes(tensor) ? device : nullptr;
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

absl::StatusOr<std::vector<std::string>> CommitNotes(const ProcessGroup& group, const std::string& own) {
  MT_RETURN_IF_ERROR(GroupStatus(group));
  return AllGather(group, own);
}

Duration WaitingFor(const ProcessGroup& group) {
  if (!group) return Duration::zero();
  const DeviceWatch* const watch = WatchOf(group);
  const Duration sums = watch == nullptr ? Duration::zero() : watch->waiting_for();
  CpuBackend* const backend = CpuBackendOf(*group);
  return backend == nullptr ? sums : std::max(sums, backend->group().waiting_for());
}

}  // namespace mtrun::collectives
