#include "trainers/collectives/all_reduce.h"

#include <utility>

#include "trainers/collectives/cpu_backend.h"
#include "trainers/collectives/device_group.h"

namespace mtrun::collectives {

c10::intrusive_ptr<c10d::Work> StartAllReduce(const ProcessGroup& group, const at::Tensor& tensor,
                                              c10d::ReduceOp::RedOpType reduce) {
  if (DeviceGroup* const device = DeviceFor(group, tensor)) return device->StartAllReduce(tensor, reduce);
  std::vector<at::Tensor> one{tensor};
  c10d::AllreduceOptions options;
  options.reduceOp = reduce;
  return group->allreduce(one, options);
}

c10::intrusive_ptr<c10d::Work> StartAllReduce(const ProcessGroup& group, const at::Tensor& tensor,
                                              std::shared_ptr<Notes> notes) {
  CpuBackend* const backend = CpuBackendOf(*group);
  TORCH_CHECK(backend != nullptr, "notes need a process group of mtrun, but this one is ",
              group->getBackendName());
  return backend->AllReduceWithNotes(tensor, std::move(notes));
}

c10::intrusive_ptr<c10d::Work> StartSumOfPartials(const ProcessGroup& group, const at::Tensor& partials,
                                                  std::shared_ptr<const TreePlan> plan,
                                                  std::shared_ptr<Notes> notes) {
  CpuBackend* const backend = CpuBackendOf(*group);
  TORCH_CHECK(backend != nullptr, "partial sums need a process group of mtrun, but this one is ",
              group->getBackendName());
  return backend->SumPartials(partials, std::move(plan), std::move(notes));
}

std::vector<std::string> AllGather(const ProcessGroup& group, const std::string& note) {
  const auto notes = std::make_shared<Notes>(Notes{note, {}});
  StartAllReduce(group, at::empty({0}), notes)->wait();
  return notes->all;
}

void AllReduce(const ProcessGroup& group, const at::Tensor& tensor, c10d::ReduceOp::RedOpType reduce) {
  const auto work = StartAllReduce(group, tensor, reduce);
  Waiting(DeviceFor(group, tensor), [&] { work->wait(); });
}

void Broadcast(const ProcessGroup& group, const at::Tensor& tensor, int root) {
  if (DeviceGroup* const device = DeviceFor(group, tensor)) {
    const auto work = device->StartBroadcast(tensor, root);
    return Waiting(device, [&] { work->wait(); });
  }
  std::vector<at::Tensor> one{tensor};
  c10d::BroadcastOptions options;
  options.rootRank = root;
  group->broadcast(one, options)->wait();
}

}  // namespace mtrun::collectives
