#include "trainers/tasks/diffusion_task.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <c10/util/accumulate.h>

#include "trainers/random/draw.h"
#include "trainers/tasks/image_grid.h"

namespace mtrun::trainers {

DiffusionTask::DiffusionTask(std::shared_ptr<torch::nn::Module> module, Network network,
                             const DiffusionOptions& options)
    : Task(std::move(module)), network_(std::move(network)), options_(options), schedule_(options.schedule) {}

at::TensorOptions DiffusionTask::Where() const {
  return module().parameters().front().options().requires_grad(false);
}

std::vector<at::Tensor> DiffusionTask::Draw(int64_t n, const MicroBatchId& micro_batch) const {
  const at::TensorOptions where = Where();
  const auto stream = [&](std::string_view purpose) {
    return OnDevice(RandomStream(micro_batch.seed, micro_batch.step, micro_batch.micro_batch, purpose),
                    where.device());
  };
  const int64_t size = options_.image_size;
  std::vector<at::Tensor> drawn = {DrawBelow({n}, schedule_.steps(), stream("time")),
                                   DrawNormal({n, 3, size, size}, stream("noise")).to(where)};
  if (options_.classes > 0) drawn.push_back(DrawUniform({n}, stream("label")) < options_.label_drop);
  return drawn;
}

at::Tensor DiffusionTask::Loss(const at::Tensor& images, const Draws& draws) const {
  const at::Tensor output = network_(schedule_.AddNoise(images, draws.t, draws.noise), draws.t, draws.labels);
  return at::mse_loss(output.to(images.scalar_type()),
                      schedule_.Target(options_.target, images, draws.t, draws.noise));
}

Task::Output DiffusionTask::Train(const Batch& batch, const RandomInputs& random) {
  schedule_.To(batch.images.device());
  Draws draws{random.drawn[0], random.drawn[1], {}};
  // The class after the last one means "no class".
  if (options_.classes > 0) draws.labels = batch.labels.masked_fill(random.drawn[2], options_.classes);
  return {Loss(batch.images, draws), 0, {}};
}

at::Tensor DiffusionTask::EvaluationNoise(const at::Tensor& images, int64_t first) const {
  // A stream has 2^34 numbers, too few for every test set.
  constexpr int64_t kSamples = 1024;
  const int64_t values = c10::multiply_integers(images.sizes().slice(1)), each = (values + 1) / 2 * 2;
  std::vector<at::Tensor> noise;
  for (int64_t k = first, end = first + images.size(0); k < end;) {
    const int64_t part = k / kSamples, within = k % kSamples, count = std::min(end - k, kSamples - within);
    const RandomStream stream(options_.seed, 0, part, "evaluation noise");
    noise.push_back(DrawNormal({count, each}, OnDevice(stream, images.device()), within * each));
    k += count;
  }
  return at::cat(noise).narrow(1, 0, values).reshape(images.sizes()).to(images.options());
}

void DiffusionTask::Evaluate(const Batch& batch, int64_t first, Sums& sums) {
  schedule_.To(batch.images.device());
  const int64_t n = batch.images.size(0);
  const at::Tensor times =
      OnDevice(RandomStream(options_.seed, 0, 0, "evaluation time"), batch.images.device());
  // Sample k has time k and the k-th noise, whatever batch it is in.
  Draws draws{DrawBelow({n}, schedule_.steps(), times, first), EvaluationNoise(batch.images, first), {}};
  if (options_.classes > 0) draws.labels = batch.labels;
  sums.loss.add_(Loss(batch.images, draws).to(at::kDouble).mul(static_cast<double>(n)));
}

at::Tensor DiffusionTask::Guided(const at::Tensor& x, const at::Tensor& t, const at::Tensor& labels) const {
  const at::Tensor output = network_(x, t, labels);
  if (options_.classes == 0 || options_.guidance == 0) return output;
  const at::Tensor without = network_(x, t, at::full_like(labels, options_.classes));
  return output + options_.guidance * (output - without);
}

at::Tensor DiffusionTask::Sample(int64_t n) {
  torch::NoGradGuard no_grad;
  const at::TensorOptions where = Where();
  const at::Tensor stream = OnDevice(RandomStream(options_.seed, 0, 0, "sample"), where.device());
  const at::Tensor start = DrawNormal({n, 3, options_.image_size, options_.image_size}, stream).to(where);
  at::Tensor labels;
  if (options_.classes > 0) labels = at::arange(n, where.dtype(at::kLong)).remainder(options_.classes);
  const DiffusionSampler sampler(
      schedule_, options_.target,
      [&](const at::Tensor& x, const at::Tensor& t) { return Guided(x, t, labels); },
      /*clip=*/true);
  return sampler.Ddim(start, options_.ddim_steps);
}

absl::Status DiffusionTask::DrawPicture(const std::string& path) {
  return WriteImageGrid(path, Sample(options_.samples));
}

}  // namespace mtrun::trainers
