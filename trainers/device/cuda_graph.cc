#include "trainers/device/cuda_graph.h"

#ifdef MT_CUDA
#include <exception>

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include "trainers/device/torch_status.h"
#endif

namespace mtrun::trainers {

#ifdef MT_CUDA
namespace {

class CudaGraph : public Graph {
 public:
  ~CudaGraph() override {
    // A graph that still runs must not lose its memory. Whoever computes next reports an error of the
    // device.
    if (captured_) static_cast<void>(cudaStreamSynchronize(c10::cuda::getCurrentCUDAStream()));
  }
  void Capture(const std::function<void()>& work) override {
    c10::cuda::getCurrentCUDAStream().synchronize();
    // A capture has memory of its own: what the steps before it have left would be held besides.
    c10::cuda::CUDACachingAllocator::emptyCache();
    // Other threads (NCCL's watchdogs, a checkpoint's writer) may call CUDA meanwhile.
    graph_.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    captured_ = true;
    std::exception_ptr failed;
    try {
      work();
    } catch (...) {
      failed = std::current_exception();
    }
    EndCapture(failed);
    if (failed) std::rethrow_exception(failed);
  }
  void Replay() override { graph_.replay(); }

 private:
  /// The stream has to leave its capturing state in any case; the first failure is reported.
  void EndCapture(std::exception_ptr& failed) {
    try {
      graph_.capture_end();
    } catch (...) {
      if (!failed) failed = std::current_exception();
    }
  }

  at::cuda::CUDAGraph graph_;
  bool captured_ = false;
};

}  // namespace

absl::StatusOr<GraphFactory> CudaGraphs(at::Device device) {
  const absl::Status own_stream = TorchStatus("a stream for CUDA graphs", [&] {
    c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index()));
  });
  if (!own_stream.ok()) return own_stream;
  return GraphFactory([] { return std::make_unique<CudaGraph>(); });
}
#else
absl::StatusOr<GraphFactory> CudaGraphs(at::Device) {
  return absl::FailedPreconditionError(
      "--graph needs CUDA, and this program was built without it: tools/setup --cuda, then build again");
}
#endif

}  // namespace mtrun::trainers
