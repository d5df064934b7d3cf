#include "trainers/program/machine.h"

#include <malloc.h>

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <torch/cuda.h>

#include "absl/strings/str_cat.h"
#include "base/processors.h"
#include "base/status_macros.h"
#include "trainers/device/torch_status.h"
#include "trainers/input/image_bytes.h"

namespace mtrun::trainers {

void KeepFreedMemory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
}

MachineFacts FindMachine(const TrainOptions& options, const EnvironmentMap& environment,
                         const Assignment& assignment, const ImageShape& images) {
  const bool cuda = options.device != "cpu" && torch::cuda::is_available();
  return {.gpus = cuda ? static_cast<int>(torch::cuda::device_count()) : 0,
          .cores = UsableProcessors(),
          .openmp_threads = environment.count("OMP_NUM_THREADS") != 0 ? at::get_num_threads() : 0,
          .local_rank = assignment.local_rank,
          .local_world_size = assignment.local_world_size,
          .image_height = images.height,
          .image_width = images.width,
          .images_vary = images.varies};
}

absl::StatusOr<at::Device> UseMachine(const ResolvedRun& run, const TrainOptions& options) {
  at::set_num_threads(run.threads);
  if (!run.device.cuda) return at::Device(at::kCPU);
  const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(run.device.index));
  MT_RETURN_IF_ERROR(TorchStatus(absl::StrCat("use ", device.str()), [&] {
    c10::impl::getDeviceGuardImpl(at::kCUDA)->setDevice(device);
    // Trying cuDNN's algorithms pays, because all micro-batches except an epoch's last have the same shape.
    at::globalContext().setBenchmarkCuDNN(true);
    at::globalContext().setAllowTF32CuBLAS(options.tf32);
    at::globalContext().setAllowTF32CuDNN(options.tf32);
  }));
  return device;
}

absl::StatusOr<Residency> ResolveResidency(const TrainOptions& options, const RunData& data,
                                           const ResolvedRun& run, at::Device device) {
  const Reading reading = options.ReadingNow();
  const bool fast = data.train.encoded() && reading.decode == datasets::DecodeMode::kFast;
  if (reading.changes() || fast) {
    if (options.resident != "on")
      return Residency{false, reading.changes() ? "training images change each time" : "--decode fast"};
    return absl::InvalidArgumentError(
        "--resident on decodes images exactly and only once, so it excludes --decode fast and settings that "
        "change the part, size or colour of training images each time");
  }
  ResidencyNeeds needs{.cuda = device.is_cuda(), .stay = data.stays, .share = options.resident_share};
  needs.images =
      BytesOfAll(data.train, run.batch_image_size) + BytesOfAll(data.test, run.eval_batch_image_size);
  if (data.final_test) needs.images += BytesOfAll(*data.final_test, run.eval_batch_image_size);
  if (needs.cuda) {
    MT_RETURN_IF_ERROR(TorchStatus("read the GPU's free memory", [&] {
      needs.free = static_cast<int64_t>(at::accelerator::getMemoryInfo(device.index()).first);
    }));
  }
  return ChooseResidency(options.resident, needs);
}

}  // namespace mtrun::trainers
