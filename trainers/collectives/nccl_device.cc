#include "trainers/collectives/nccl_device.h"

#ifdef MT_CUDA
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/mutex.h"
#include "trainers/collectives/bootstrap_store.h"
#include "trainers/collectives/wait_marks.h"
#endif

namespace mtrun::collectives {

#ifdef MT_CUDA
namespace {

/// How long a sum may wait for members that are late: the CPU group notices who is gone, mtrun who hangs.
/// Does not lengthen abort(), which in any case ends when the communicator is aborted.
constexpr std::chrono::hours kWaits(24 * 365);

/// As torchft does: aborting is our business, so NCCL's own watchdogs must neither end the process nor wait.
/// Where a call of a communicator that is not ready yet waits for it, it holds the lock that abort() needs:
/// that ends after a minute instead of half an hour, and nobody waits for it (DeviceWatch::Connect). Members
/// meet while they connect, for else the first sum would be such a call.
void QuietWatchdogs() {
  // mtrun sets it to 1 for all programs, as torchrun does.
  setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0", /*overwrite=*/1);
  // The watchdog that finds an error sleeps for four times TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC, with a lock
  // that the next sum and the group's end wait for.
  constexpr std::pair<const char*, const char*> kUnlessSet[] = {
      {"TORCH_NCCL_ENABLE_MONITORING", "0"},    {"TORCH_NCCL_DUMP_ON_TIMEOUT", "0"},
      {"TORCH_NCCL_RETHROW_CUDA_ERRORS", "0"},  {"TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "0"},
      {"TORCH_NCCL_NONBLOCKING_TIMEOUT", "60"}, {"NCCL_RUNTIME_CONNECT", "0"}};
  for (const auto& [name, value] : kUnlessSet) setenv(name, value, /*overwrite=*/0);
}

const char* NcclName(c10d::ErrorType error) {
  switch (error) {
    case c10d::ErrorType::SUCCESS:
      return "no error";
    case c10d::ErrorType::TIMEOUT:
      return "NCCL timed out";
    case c10d::ErrorType::COMM_ERROR:
      return "NCCL's communication failed";
    case c10d::ErrorType::REMOTE_ERROR:
      return "NCCL failed on another member";
  }
  return "NCCL failed";
}

class NcclDevice final : public DeviceGroup {
 public:
  NcclDevice(const GroupMember& membership, std::shared_ptr<Bootstrap> bootstrap, at::Device device)
      : device_(device) {
    // --graph computes in a stream of the low priority's pool, which hands its 32 streams out in turn: after
    // as many generations NCCL's would be that one, and a wait for others could not be told from own work.
    const auto options = c10d::ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/true);
    options->config.blocking = 0;  // so that abort() finds nobody inside of NCCL
    options->timeout = kWaits;
    nccl_ = c10::make_intrusive<c10d::ProcessGroupNCCL>(
        c10::make_intrusive<BootstrapStore>(std::move(bootstrap),
                                            absl::StrCat(membership.generation, "/nccl/")),
        membership.rank, membership.world_size, options);
  }
  /// In order, too: by itself the process group would warn of one that was not ended, abort as well, and end
  /// the process where that fails.
  ~NcclDevice() override { Abort(); }

  absl::Status Connect() override {
    return Try("connect", [&] {
      const c10::cuda::CUDAGuard guard(device_);
      nccl_->eagerConnectSingleDevice(device_);
      // Waits until the communicator of this thread's device is ready. isInitialized() would not tell: in
      // non-blocking mode it says so only of one that has been asked for before.
      TORCH_CHECK(nccl_->getCommPtr() != 0, "no communicator was made");
    });
  }

  absl::Status Error() override {
    if (aborted_) return absl::AbortedError("it was aborted");
    const c10d::ErrorType error = nccl_->getError();
    return error == c10d::ErrorType::SUCCESS ? absl::OkStatus() : absl::UnavailableError(NcclName(error));
  }

  void Abort() override {
    if (aborted_.exchange(true)) return;
    const absl::Status done = Try("abort", [&] { nccl_->abort(); });
    if (!done.ok()) log::Warning(std::string(done.message()));
  }

  void BeginWait() override {
    Mark mark = RecordedMark();
    const MutexLock lock(mu_);
    waits_.Begin(std::move(mark));
  }
  void EndWait() override {
    Mark mark = RecordedMark();
    const MutexLock lock(mu_);
    waits_.End(std::move(mark));
  }
  uint64_t CurrentWait() override {
    const MutexLock lock(mu_);
    return waits_.Current([this](const Mark& mark) { return IsPast(mark); });
  }

  bool Takes(const at::Tensor& tensor) const override { return tensor.is_cuda(); }

  c10::intrusive_ptr<c10d::Work> StartAllReduce(const at::Tensor& tensor,
                                                c10d::ReduceOp::RedOpType reduce) override {
    std::vector<at::Tensor> one{tensor};
    c10d::AllreduceOptions options;
    options.reduceOp = reduce;
    return nccl_->allreduce(one, options);
  }
  c10::intrusive_ptr<c10d::Work> StartBroadcast(const at::Tensor& tensor, int root) override {
    std::vector<at::Tensor> one{tensor};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    return nccl_->broadcast(one, options);
  }

  c10::intrusive_ptr<c10d::Backend> backend() override { return nccl_; }

 private:
  using Mark = std::unique_ptr<at::cuda::CUDAEvent>;

  /// At what this thread's stream has been given last.
  static Mark RecordedMark() {
    auto mark = std::make_unique<at::cuda::CUDAEvent>();
    mark->record();
    return mark;
  }
  bool IsPast(const Mark& mark) const {
    bool past = false;
    const absl::Status asked = Try("say how far the device is", [&] {
      const c10::cuda::CUDAGuard guard(device_);  // the thread that watches would begin to use the first one
      past = mark->query();
    });
    return asked.ok() && past;
  }

  template <typename Body>
  static absl::Status Try(const char* what, const Body& body) {
    try {
      body();
      return absl::OkStatus();
    } catch (const std::exception& error) {
      return absl::UnavailableError(absl::StrCat("NCCL did not ", what, ": ", error.what()));
    }
  }

  const at::Device device_;
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> nccl_;
  std::atomic<bool> aborted_ = false;
  Mutex mu_;
  WaitMarks<Mark> waits_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

absl::StatusOr<DeviceMaker> NcclDevices(at::Device device) {
  QuietWatchdogs();
  return DeviceMaker([device](const GroupMember& membership, std::shared_ptr<Bootstrap> bootstrap) {
    return std::make_shared<NcclDevice>(membership, std::move(bootstrap), device);
  });
}
#else
absl::StatusOr<DeviceMaker> NcclDevices(at::Device) {
  return absl::FailedPreconditionError(
      "several workers on GPUs need NCCL, and this program was built without it: tools/setup --cuda, then "
      "build again");
}
#endif

}  // namespace mtrun::collectives
