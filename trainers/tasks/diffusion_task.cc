#include "trainers/tasks/diffusion_task.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

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
  // The class after the last one stands for "no class".
  if (options_.classes > 0) draws.labels = batch.labels.masked_fill(random.drawn[2], options_.classes);
  return {Loss(batch.images, draws), 0, {}};
}

void DiffusionTask::Evaluate(const Batch& batch, int64_t first, Sums& sums) {
  schedule_.To(batch.images.device());
  const int64_t n = batch.images.size(0);
  const auto stream = [&](std::string_view purpose) {
    return OnDevice(RandomStream(options_.seed, 0, 0, purpose), batch.images.device());
  };
  // Sample k has time k and the k-th of the noises, whatever is evaluated together.
  const int64_t each = (batch.images.numel() / std::max<int64_t>(n, 1) + 1) / 2 * 2;
  at::Tensor noise = DrawNormal({n, each}, stream("evaluation noise"), first * each);
  noise = noise.narrow(1, 0, batch.images.numel() / std::max<int64_t>(n, 1)).reshape(batch.images.sizes());
  Draws draws{DrawBelow({n}, schedule_.steps(), stream("evaluation time"), first),
              noise.to(batch.images.options()),
              {}};
  if (options_.classes > 0) draws.labels = batch.labels;
  sums.loss += Loss(batch.images, draws).item<double>() * static_cast<double>(n);
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
