#include "trainers/tasks/diffusion_task.h"

#include <utility>
#include <vector>

#include "trainers/input/micro_batch_rng.h"
#include "trainers/tasks/image_grid.h"

namespace mtrun::trainers {

DiffusionTask::DiffusionTask(std::shared_ptr<torch::nn::Module> module, Network network,
                             const DiffusionOptions& options)
    : Task(std::move(module)), network_(std::move(network)), options_(options), schedule_(options.schedule) {}

at::TensorOptions DiffusionTask::Where() const {
  return module().parameters().front().options().requires_grad(false);
}

std::vector<at::Tensor> DiffusionTask::Draw(int64_t n, const MicroBatchId& micro_batch) const {
  // On the CPU, so that a run on a GPU sees the same noise.
  at::Generator generator =
      MicroBatchGenerator(micro_batch.seed, micro_batch.step, micro_batch.micro_batch, "noise");
  const at::TensorOptions whole(at::kLong), real(at::kFloat), where = Where();
  const int64_t size = options_.image_size;
  std::vector<at::Tensor> drawn = {at::randint(schedule_.steps(), {n}, generator, whole).to(where.device()),
                                   at::randn({n, 3, size, size}, generator, real).to(where)};
  if (options_.classes > 0) {
    drawn.push_back((at::rand({n}, generator, real) < options_.label_drop).to(where.device()));
  }
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
  std::vector<at::Tensor> times, noises;
  for (int64_t i = 0; i < n; ++i) {
    at::Generator generator = MicroBatchGenerator(options_.seed, first + i, 0, "evaluate");
    times.push_back(at::randint(schedule_.steps(), {1}, generator, at::TensorOptions(at::kLong)));
    noises.push_back(at::randn(batch.images.sizes().slice(1), generator, at::TensorOptions(at::kFloat)));
  }
  Draws draws{at::cat(times).to(batch.images.device()), at::stack(noises).to(batch.images.options()), {}};
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
  at::Generator generator = MicroBatchGenerator(options_.seed, 0, 0, "sample");
  const at::Tensor start =
      at::randn({n, 3, options_.image_size, options_.image_size}, generator, at::TensorOptions(at::kFloat))
          .to(where);
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
