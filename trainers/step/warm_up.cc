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

/// Everything that a step changes, copied to the host so that the device does not hold it twice.
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

/// If the loss scale is too high for the first batch, each skipped step halves it, from 65536 down to 2^-48.
constexpr int kMaxSteps = 64;

/// Takes steps as the first of as many workers as there are micro-batches.
absl::Status TakeSteps(Task& task, MicroBatchSource& source, TrainState& state,
                       const TrainStep::Options& options) {
  DataParallel alone(state.trained(), nullptr, DataParallel::kDefaultBucketBytes,
                     options.graphs ? DataParallel::Gradients::kFixed : DataParallel::Gradients::kFree);
  TrainStep step(task, source, alone, state, options);
  const int world = static_cast<int>(source.micro_batches());
  const int fewest = options.graphs ? CapturePlan::kWarmUp + 1 : 1;
  for (int taken = 1; taken <= kMaxSteps; ++taken) {
    const absl::StatusOr<StepResult> result = step.Run(0, 0, world, /*learning_rate=*/0);
    if (absl::IsOutOfRange(result.status())) {
      // Another try has the same numbers. If they are wrong, the run's own steps report it.
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
  MT_RETURN_IF_ERROR(TorchStatus("first step to warm up", [&] {
    KeptState kept(state);
    const bool training = task.module().is_training();
    task.module().train();
    warm = Annotate(TakeSteps(task, source, state, options), "first step to warm up");
    kept.Restore();
    for (at::Tensor& parameter : task.module().parameters()) parameter.mutable_grad().reset();
    task.module().train(training);
  }));
  return warm;
}

}  // namespace mtrun::trainers
