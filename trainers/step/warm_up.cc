#include "trainers/step/warm_up.h"

#include <utility>
#include <vector>

#include <torch/types.h>

#include "base/status_macros.h"
#include "trainers/device/capture_plan.h"
#include "trainers/device/torch_status.h"
#include "trainers/parallel/data_parallel.h"

namespace mtrun::trainers {
namespace {

/// What a step changes, copied to the host: the device has to hold nothing twice.
class KeptState {
 public:
  explicit KeptState(const TrainState& state) {
    for (const auto& tensors : {state.Weights(), state.Rest()}) {
      for (const auto& [name, tensor] : tensors)
        kept_.emplace_back(tensor, tensor.detach().to(at::TensorOptions(at::kCPU), /*non_blocking=*/false,
                                                      /*copy=*/true));
    }
  }
  void Restore() {
    torch::NoGradGuard no_grad;
    for (auto& [tensor, copy] : kept_) tensor.copy_(copy);
  }

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> kept_;
};

/// While the loss scale is too high for the first batch, updates are skipped: each step halves it, and from
/// 65536 this many come to 2^-48.
constexpr int kMostSteps = 64;

/// Of as many workers as there are micro-batches, the first one.
absl::Status TakeSteps(Task& task, MicroBatchSource& source, TrainState& state,
                       const TrainStep::Options& options) {
  DataParallel alone(state.trained(), nullptr, DataParallel::kDefaultBucketBytes,
                     options.graphs ? DataParallel::Gradients::kFixed : DataParallel::Gradients::kFree);
  TrainStep step(task, source, alone, state, options);
  const int world = static_cast<int>(source.micro_batches());
  const int fewest = options.graphs ? CapturePlan::kWarmUp + 1 : 1;
  for (int taken = 1; taken <= kMostSteps; ++taken) {
    const absl::StatusOr<StepResult> result = step.Run(0, 0, world, /*learning_rate=*/0);
    if (absl::IsOutOfRange(result.status())) {
      // The run's own steps say what is wrong with the numbers, if anything is; another try has the same.
      if (taken >= fewest) break;
      continue;
    }
    MT_RETURN_IF_ERROR(result.status());
    if (!result->skipped && (!options.graphs || step.captured())) break;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WarmUp(Task& task, MicroBatchSource& source, TrainState& state,
                    const TrainStep::Options& options) {
  absl::Status warm;
  MT_RETURN_IF_ERROR(TorchStatus("a first step to warm up", [&] {
    KeptState kept(state);
    const bool training = task.module().is_training();
    task.module().train();
    warm = Annotate(TakeSteps(task, source, state, options), "a first step to warm up");
    kept.Restore();
    for (at::Tensor& parameter : task.module().parameters()) parameter.mutable_grad().reset();
    task.module().train(training);
  }));
  return warm;
}

}  // namespace mtrun::trainers
