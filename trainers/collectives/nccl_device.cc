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

/// How long a sum may wait for late members: the CPU group detects members that are gone, and mtrun those
/// that hang. It does not delay abort(), which ends when the communicator is aborted.
constexpr std::chrono::hours kWaits(24 * 365);

/// Disables NCCL's own watchdogs, as torchft does: this code decides when to abort, so they must neither end
/// the process nor wait. If a call must wait for a communicator that is not ready, it holds the lock that
/// abort() needs. That ends after a minute instead of half an hour, and no thread waits for it
/// (DeviceWatch::Connect). Members meet while they connect: otherwise the first sum would be such a call.
void QuietWatchdogs() {
  // mtrun sets it to 1 for all programs, as torchrun does.
  setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0", /*overwrite=*/1);
  // If a watchdog finds an error, it sleeps for four times TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC and holds a
  // lock that the next sum and the group's end need.
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
    // --graph computes in a stream of the low-priority pool, which hands out its 32 streams in turn. After 32
    // generations NCCL would get the same one, and a wait for others would look like work of the device.
    const auto options = c10d::ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/true);
    options->config.blocking = 0;  // abort() then never finds a thread inside NCCL
    options->timeout = kWaits;
    nccl_ = c10::make_intrusive<c10d::ProcessGroupNCCL>(
        c10::make_intrusive<BootstrapStore>(std::move(bootstrap),
                                            absl::StrCat(membership.generation, "/nccl/")),
        membership.rank, membership.world_size, options);
  }
  /// Aborts after an orderly end, too. Otherwise the process group would warn that it was not ended, abort by
  /// itself, and end the process if that fails.
  ~NcclDevice() override { Abort(); }

  absl::Status Connect() override {
    return Try("connect", [&] {
      const c10::cuda::CUDAGuard guard(device_);
      nccl_->eagerConnectSingleDevice(device_);
      // Waits until the communicator of this thread's device is ready. isInitialized() does not show it: in
      // non-blocking mode it is true only if the communicator has been requested before.
      TORCH_CHECK(nccl_->getCommPtr() != 0, "no communicator was created");
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

  /// Returns a mark after the last work that was submitted to this thread's stream.
  static Mark RecordedMark() {
    auto mark = std::make_unique<at::cuda::CUDAEvent>();
    mark->record();
    return mark;
  }
  bool IsPast(const Mark& mark) const {
    bool past = false;
    const absl::Status asked = Try("report the device's progress", [&] {
      const c10::cuda::CUDAGuard guard(device_);  // or the watching thread would initialise the first GPU
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
      "several workers on GPUs need NCCL, but this program was built without it: run tools/setup --cuda, "
      "then build again");
}
#endif

}  // namespace mtrun::collectives
