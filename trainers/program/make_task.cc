#include "trainers/program/make_task.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainers/device/torch_status.h"
#include "trainers/models/batch_norm.h"
#include "trainers/weights/init_from.h"

namespace mtrun::trainers {
namespace {

void MoveNetwork(torch::nn::Module& module, const BatchOptions& batch) {
  module.to(batch.device, batch.dtype);
  torch::NoGradGuard no_grad;
  for (at::Tensor& parameter : module.parameters()) {
    if (parameter.dim() == 4) parameter.set_data(parameter.contiguous(batch.format));
  }
}

}  // namespace

ClassifierOptions ClassifierOptionsOf(const TaskInputs& inputs) {
  ClassifierOptions options{.mixing = inputs.options.mixing};
  if (inputs.options.class_weights == "balanced")
    options.class_weights = BalancedWeights(inputs.class_counts);
  return options;
}

absl::StatusOr<std::unique_ptr<Task>> MakeTask(const Program& program, const TaskInputs& inputs,
                                               const BatchOptions& batch) {
  MT_ASSIGN_OR_RETURN(std::unique_ptr<Task> task,
                      TorchStatus("create the network", [&] { return program.make_task(inputs); }));
  // All workers read them, because any can become rank 0, which is the source for the others.
  if (!inputs.options.init_from.empty()) {
    MT_RETURN_IF_ERROR(InitFrom(inputs.options.init_from, task->module()));
  }
  MT_RETURN_IF_ERROR(TorchStatus("move the network", [&] { MoveNetwork(task->module(), batch); }));
  if (inputs.options.sync_micro_batches > 0 && models::BatchNormsOf(task->module()).empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--sync_bn: ", program.name, " has no batch normalisation"));
  }
  if (inputs.options.mixing.any() && !task->mixes()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--mixup and --cutmix mix images and their labels: ", program.name, " does not support that"));
  }
  const bool trains = !inputs.class_counts.empty();
  if (trains && inputs.options.class_weights != "none" && !task->weighs_classes()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--class_weights changes the loss of classes: ", program.name, " does not support that"));
  }
  return task;
}

}  // namespace mtrun::trainers
