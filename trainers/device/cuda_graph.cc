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
    // A running graph must not lose its memory. The next computation reports an error of the device.
    if (captured_) static_cast<void>(cudaStreamSynchronize(c10::cuda::getCurrentCUDAStream()));
  }
  void Capture(const std::function<void()>& work) override {
    c10::cuda::getCurrentCUDAStream().synchronize();
    // A capture has memory of its own; the memory cached by earlier steps would be held as well.
    c10::cuda::CUDACachingAllocator::emptyCache();
    // Other threads (NCCL's watchdogs, a checkpoint's writer) may call CUDA during the capture.
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
  /// Ends the stream's capturing state in any case, and keeps the first failure.
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
      "--graph needs CUDA, but this program was built without it: run tools/setup --cuda, then build again");
}
#endif

}  // namespace mtrun::trainers
