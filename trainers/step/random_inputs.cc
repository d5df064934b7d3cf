#include "trainers/step/random_inputs.h"

#include "trainers/random/draw.h"

namespace mtrun::trainers {

RandomInputs DrawInputs(const Task& task, const MicroBatchId& micro_batch, int64_t samples,
                        at::Device device) {
  const auto& [seed, step, number] = micro_batch;
  RandomInputs inputs{task.Draw(samples, micro_batch), {}};
  if (task.draws_during_pass()) inputs.stream = OnDevice(RandomStream(seed, step, number, "dropout"), device);
  return inputs;
}

}  // namespace mtrun::trainers
