#include "trainers/step/warm_up.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include "trainers/device/torch_status.h"
#include "trainers/step/random_inputs.h"

namespace mtrun::trainers {

absl::Status WarmUp(Task& task, MicroBatchSource& source, uint64_t seed, Precision precision) {
  return TorchStatus("a first pass to warm up", [&] {
    const Batch batch = source.Make(0, 0);
    const at::Device device = batch.images.device();
    const RandomInputs random = DrawInputs(task, {seed, 0, 0}, batch.labels.size(0), device);
    const bool training = task.module().is_training();
    task.module().train();
    Task::Output output;
    {
      const Autocast autocast(device.type(), precision);
      output = task.Train(batch, random);
    }
    torch::autograd::backward({output.loss}, {});
    static_cast<void>(output.loss.item<double>());
    for (at::Tensor& parameter : task.module().parameters()) parameter.mutable_grad().reset();
    task.module().train(training);
  });
}

}  // namespace mtrun::trainers
