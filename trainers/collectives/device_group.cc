#include "trainers/collectives/device_group.h"

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainers/collectives/cpu_backend.h"

#ifdef MT_CUDA
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "base/log.h"
#include "base/posix.h"
#include "trainers/collectives/bootstrap_store.h"
#endif

namespace mtrun::collectives {

#ifdef MT_CUDA
namespace {

/// NCCL waits for a dead peer for ever, and knows nothing of its death: the CPU group does, or the agent,
/// which aborts the CPU group.
class AbortWatch {
 public:
  AbortWatch(const Group& group, c10::intrusive_ptr<c10d::ProcessGroupNCCL> nccl)
      : stop_(eventfd(0, EFD_CLOEXEC)), thread_([this, fd = group.failure_fd(), nccl = std::move(nccl)] {
          pollfd watched[] = {{fd, POLLIN, 0}, {stop_.get(), POLLIN, 0}};
          while (poll(watched, 2, -1) < 0 && errno == EINTR) continue;
          if ((watched[0].revents & POLLIN) == 0) return;
          try {
            nccl->abort();
          } catch (const std::exception& error) {
            log::Warning("NCCL did not abort: ", error.what());
          }
        }) {}
  ~AbortWatch() {
    const uint64_t one = 1;
    MT_CHECK(write(stop_.get(), &one, sizeof(one)) == sizeof(one)) << "eventfd";
    thread_.join();
  }

 private:
  const UniqueFd stop_;
  std::thread thread_;
};

class WatchedGroup : public c10d::ProcessGroup {
 public:
  using ProcessGroup::ProcessGroup;
  std::unique_ptr<AbortWatch> watch;  // goes before the back-ends do
};

/// As torchft does: aborting is our business, so NCCL's own watchdogs must neither end the process nor wait.
void QuietWatchdogs() {
  constexpr const char* kOff[] = {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ENABLE_MONITORING",
                                  "TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_NCCL_RETHROW_CUDA_ERRORS"};
  for (const char* name : kOff) setenv(name, "0", /*overwrite=*/0);
}

absl::StatusOr<ProcessGroup> ConnectCudaGroup(const GroupMember& membership,
                                              std::shared_ptr<Bootstrap> bootstrap, at::Device device) {
  MT_ASSIGN_OR_RETURN(auto core, Group::Connect(membership, bootstrap.get()));
  QuietWatchdogs();
  try {
    const Group& members = *core;
    auto group = c10::make_intrusive<WatchedGroup>(membership.rank, membership.world_size);
    group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM,
                      c10::make_intrusive<CpuBackend>(std::move(core)));
    group->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
    const auto options = c10d::ProcessGroupNCCL::Options::create();
    options->config.blocking = 0;  // so that abort() finds nobody inside of NCCL
    const auto nccl = c10::make_intrusive<c10d::ProcessGroupNCCL>(
        c10::make_intrusive<BootstrapStore>(std::move(bootstrap),
                                            absl::StrCat(membership.generation, "/nccl/")),
        membership.rank, membership.world_size, options);
    group->watch = std::make_unique<AbortWatch>(members, nccl);
    nccl->eagerConnectSingleDevice(device);
    group->setBackend(c10::DeviceType::CUDA, c10d::ProcessGroup::BackendType::NCCL, nccl);
    return group;
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat("connect NCCL: ", error.what()));
  }
}

}  // namespace
#endif

absl::StatusOr<ProcessGroup> ConnectGroup(const GroupMember& membership, std::shared_ptr<Bootstrap> bootstrap,
                                          at::Device device) {
  if (!device.is_cuda()) return ConnectCpuGroup(membership, std::move(bootstrap));
#ifdef MT_CUDA
  return ConnectCudaGroup(membership, std::move(bootstrap), device);
#else
  return absl::FailedPreconditionError(
      "several workers on GPUs need NCCL, and this program was built without it: tools/setup --cuda, then "
      "build again");
#endif
}

absl::Status GroupStatus(const ProcessGroup& group) {
  if (!group) return absl::OkStatus();
  auto* backend = dynamic_cast<CpuBackend*>(group->getDefaultBackend().get());
  return backend == nullptr ? absl::OkStatus() : backend->group().status();
}

}  // namespace mtrun::collectives
