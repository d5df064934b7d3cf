#include "trainers/collectives/cpu_group.h"

#include <utility>

#include "base/log.h"
#include "trainers/collectives/cpu_backend.h"

namespace mtrun::collectives {
namespace {

// Returns null if the group is not mtrun's.
Group* GroupOf(const ProcessGroup& group) {
  CpuBackend* const backend = CpuBackendOf(*group);
  return backend == nullptr ? nullptr : &backend->group();
}

}  // namespace

at::Tensor SharedTensor(const ProcessGroup& group, int64_t numel, at::ScalarType dtype) {
  const auto options = at::TensorOptions().dtype(dtype);
  Group* core = GroupOf(group);
  if (core == nullptr || !core->has_local_peers() || numel == 0) return at::zeros({numel}, options);
  auto memory = core->Allocate(static_cast<size_t>(numel) * c10::elementSize(dtype));
  if (!memory.ok()) {
    log::Warning("tensors of ", numel, " elements stay in ordinary memory: ", memory.status().message());
    return at::zeros({numel}, options);
  }
  void* data = memory->get();
  return at::from_blob(
      data, {numel}, [held = *std::move(memory)](void*) mutable { held.reset(); }, options);
}

void AbortGroup(const ProcessGroup& group, std::string_view why) {
  if (Group* core = GroupOf(group)) {
    core->Abort(why);
  } else {
    group->getDefaultBackend()->abort();
  }
}

}  // namespace mtrun::collectives
