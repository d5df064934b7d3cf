#include "trainers/random/device_draw.h"

#include <c10/util/Exception.h>

#include "absl/strings/str_cat.h"

#ifdef MT_CUDA
#include <algorithm>
#include <map>
#include <mutex>

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <nvrtc.h>

#include "trainers/random/philox_source.h"  // generated: kPhiloxSource, the text of philox.h
#endif

namespace mtrun::trainers {

#ifdef MT_CUDA
namespace {

constexpr char kName[] = "mtrun_draw";
constexpr char kKernel[] = R"(
extern "C" __global__ void mtrun_draw(const mtrun::trainers::RandomStreamId* id,
                                      mtrun::trainers::DrawPlan plan, float* out) {
  const uint64_t end = (plan.first + plan.count + 3) / 4;
  uint64_t block = plan.first / 4 + uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; block < end; block += uint64_t{gridDim.x} * blockDim.x)
    mtrun::trainers::DrawBlock(*id, plan, block, out);
}
)";
constexpr int64_t kThreads = 256, kMaxBlocks = 4096;  // per launch

absl::Status CheckCompiler(nvrtcResult result, const std::string& what) {
  if (result == NVRTC_SUCCESS) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("the random numbers' kernel: ", what, ": ", nvrtcGetErrorString(result)));
}

/// Compiles and loads the kernel for one device, for the rest of the process.
cudaKernel_t LoadKernel(int device) {
  cudaDeviceProp properties;
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  const auto code = CompileDrawKernel(absl::StrCat("sm_", properties.major, properties.minor));
  TORCH_CHECK(code.ok(), std::string(code.status().message()));
  cudaLibrary_t library = nullptr;
  C10_CUDA_CHECK(cudaLibraryLoadData(&library, code->data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  cudaKernel_t kernel = nullptr;
  C10_CUDA_CHECK(cudaLibraryGetKernel(&kernel, library, kName));
  return kernel;
}

cudaKernel_t KernelOf(int device) {
  static std::mutex mutex;
  static std::map<int, cudaKernel_t> kernels;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = kernels.find(device);
  return found != kernels.end() ? found->second : kernels[device] = LoadKernel(device);
}

}  // namespace

absl::StatusOr<std::string> CompileDrawKernel(const std::string& architecture) {
  const std::string source = absl::StrCat(kPhiloxSource, kKernel);
  nvrtcProgram program = nullptr;
  absl::Status status =
      CheckCompiler(nvrtcCreateProgram(&program, source.c_str(), kName, 0, nullptr, nullptr), "source");
  if (!status.ok()) return status;
  const std::string target = absl::StrCat("--gpu-architecture=", architecture);
  const char* options[] = {target.c_str(), "--std=c++17", "--fmad=false"};
  const nvrtcResult compiled = nvrtcCompileProgram(program, 3, options);
  std::string log, code;
  size_t size = 0;
  if (compiled != NVRTC_SUCCESS && nvrtcGetProgramLogSize(program, &size) == NVRTC_SUCCESS) {
    log.resize(size);
    nvrtcGetProgramLog(program, log.data());
  }
  status = CheckCompiler(compiled, log);
  if (status.ok()) status = CheckCompiler(nvrtcGetCUBINSize(program, &size), "compiled code");
  if (status.ok()) {
    code.resize(size);
    status = CheckCompiler(nvrtcGetCUBIN(program, code.data()), "compiled code");
  }
  nvrtcDestroyProgram(&program);
  if (!status.ok()) return status;
  return code;
}

void DrawOnDevice(const at::Tensor& stream, const DrawPlan& plan, const at::Tensor& out) {
  const c10::cuda::CUDAGuard guard(out.device());
  const int64_t* id = stream.const_data_ptr<int64_t>();
  float* numbers = out.mutable_data_ptr<float>();
  DrawPlan own = plan;
  void* arguments[] = {&id, &own, &numbers};
  const int64_t threads = (plan.count + 3) / 4 + 1;
  const auto blocks = static_cast<unsigned>(std::min(kMaxBlocks, (threads + kThreads - 1) / kThreads));
  C10_CUDA_CHECK(cudaLaunchKernel(reinterpret_cast<const void*>(KernelOf(out.device().index())), dim3(blocks),
                                  dim3(kThreads), arguments, 0, c10::cuda::getCurrentCUDAStream()));
}
#else
absl::StatusOr<std::string> CompileDrawKernel(const std::string& architecture) {
  return absl::FailedPreconditionError(
      absl::StrCat("this program was built without CUDA: no code for ", architecture));
}

void DrawOnDevice(const at::Tensor& stream, const DrawPlan&, const at::Tensor&) {
  TORCH_CHECK(false, "this program was built without CUDA: it cannot draw on ", stream.device());
}
#endif

}  // namespace mtrun::trainers
