#include "trainers/program/machine.h"

#include <malloc.h>
#include <thread>

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <torch/cuda.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainers/device/torch_status.h"
#include "trainers/input/image_bytes.h"

namespace mtrun::trainers {

void KeepFreedMemory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
}

MachineFacts FindMachine(const TrainOptions& options, const EnvironmentMap& environment,
                         const Assignment& assignment, const RunData& data) {
  const bool cuda = options.device != "cpu" && torch::cuda::is_available();
  return {.gpus = cuda ? static_cast<int>(torch::cuda::device_count()) : 0,
          .cores = static_cast<int>(std::thread::hardware_concurrency()),
          .openmp_threads = environment.count("OMP_NUM_THREADS") != 0 ? at::get_num_threads() : 0,
          .local_rank = assignment.local_rank,
          .local_world_size = assignment.local_world_size,
          .image_height = data.height(),
          .image_width = data.width(),
          .images_vary = data.varies()};
}

absl::StatusOr<at::Device> UseMachine(const ResolvedRun& run, const TrainOptions& options) {
  at::set_num_threads(run.threads);
  if (!run.device.cuda) return at::Device(at::kCPU);
  const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(run.device.index));
  MT_RETURN_IF_ERROR(TorchStatus(absl::StrCat("use ", device.str()), [&] {
    c10::impl::getDeviceGuardImpl(at::kCUDA)->setDevice(device);
    // All micro-batches of a run but an epoch's last one have the same shape: trying cuDNN's algorithms pays.
    at::globalContext().setBenchmarkCuDNN(true);
    at::globalContext().setAllowTF32CuBLAS(options.tf32);
    at::globalContext().setAllowTF32CuDNN(options.tf32);
  }));
  return device;
}

absl::StatusOr<Residency> ResolveResidency(const TrainOptions& options, const RunData& data, int image_size,
                                           at::Device device) {
  if (options.ReadingNow().changes()) {
    if (options.resident == "on") {
      return absl::InvalidArgumentError(
          "--resident on: training images that are cut, coloured or sized anew each time are not kept on the "
          "device");
    }
    return Residency{false, "training images change each time"};
  }
  ResidencyNeeds needs{.cuda = device.is_cuda(), .share = options.resident_share};
  needs.images = BytesOfAll(data.train, image_size) + BytesOfAll(data.test, image_size);
  if (needs.cuda) {
    MT_RETURN_IF_ERROR(TorchStatus("ask for the GPU's free memory", [&] {
      needs.free = static_cast<int64_t>(at::accelerator::getMemoryInfo(device.index()).first);
    }));
  }
  return ChooseResidency(options.resident, needs);
}

}  // namespace mtrun::trainers
