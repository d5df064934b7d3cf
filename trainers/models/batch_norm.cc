#include "trainers/models/batch_norm.h"

#include <algorithm>

#include "base/log.h"
#include "base/status_macros.h"

namespace mtrun::models {
namespace {

/// PyTorch refuses such a batch. Here the last batch of an epoch can have any size.
void WarnOfOneValue() {
  static const bool once = [] {
    log::Warning(
        "a micro-batch has only one value per channel: batch normalisation turns it into the bias, learns "
        "nothing from it and leaves it out of the running statistics. If all micro-batches are like that, "
        "use a larger batch_size or --sync_bn");
    return true;
  }();
  (void)once;
}

}  // namespace

int64_t ValuesPerChannel(const at::Tensor& x) { return x.numel() / std::max<int64_t>(x.size(1), 1); }

BatchNorm::BatchNorm(int64_t channels)
    : torch::nn::Module("BatchNorm"),
      weight_(register_parameter("weight", at::ones({channels}))),
      bias_(register_parameter("bias", at::zeros({channels}))),
      running_mean_(register_buffer("running_mean", at::zeros({channels}))),
      running_var_(register_buffer("running_var", at::ones({channels}))),
      num_batches_tracked_(register_buffer("num_batches_tracked", at::zeros({}, at::kLong))) {}

Normalised BatchNorm::NormaliseAlone(const at::Tensor& x) const {
  // With momentum 1, PyTorch's kernels write the pass's mean and unbiased variance to the given buffers. Each
  // pass gets new ones, because the backward pass keeps them.
  const at::Tensor statistics = at::zeros({2, running_mean_.numel()}, running_mean_.options());
  at::Tensor output =
      at::batch_norm(x, weight_, bias_, statistics.select(0, 0), statistics.select(0, 1), /*training=*/true,
                     /*momentum=*/1.0, kEps, at::globalContext().userEnabledCuDNN());
  return {std::move(output), statistics, ValuesPerChannel(x) > 1};
}

at::Tensor BatchNorm::forward(const at::Tensor& x) {
  if (!is_training()) {
    return at::batch_norm(x, weight_, bias_, running_mean_, running_var_, /*training=*/false, kMomentum, kEps,
                          at::globalContext().userEnabledCuDNN());
  }
  const std::shared_ptr<BatchNormScope> scope = scope_.lock();
  Normalised result = scope ? scope->Normalise(x, weight_, bias_, kEps) : NormaliseAlone(x);
  if (!result.known) WarnOfOneValue();
  if (sum_.defined() && x.size(0) > 0 && result.known) {
    torch::NoGradGuard no_grad;
    sum_.add_(result.statistics, x.size(0));
    count_.add_(x.size(0));
  }
  return result.output;
}

std::vector<std::shared_ptr<BatchNorm>> BatchNormsOf(const torch::nn::Module& model) {
  std::vector<std::shared_ptr<BatchNorm>> layers;
  for (const auto& module : model.modules(/*include_self=*/false)) {
    if (auto layer = std::dynamic_pointer_cast<BatchNorm>(module)) layers.push_back(std::move(layer));
  }
  return layers;
}

RunningStatistics::RunningStatistics(const torch::nn::Module& model) : layers_(BatchNormsOf(model)) {
  torch::NoGradGuard no_grad;
  std::vector<at::Tensor> running, tracked, owners;
  for (size_t i = 0; i < layers_.size(); ++i) {
    BatchNorm& layer = *layers_[i];
    running.insert(running.end(), {layer.running_mean_, layer.running_var_});
    // Unlike Python's, Module::to(dtype) converts this buffer too.
    tracked.push_back(layer.num_batches_tracked_.to(at::kLong));
    owners.push_back(
        at::full({2 * layer.running_mean_.numel()}, static_cast<int64_t>(i), tracked.back().options()));
  }
  if (layers_.empty()) {
    sums_ = at::zeros({0}, at::kDouble);
    return;
  }
  running_ = at::cat(running);
  tracked_ = at::stack(tracked);
  layer_of_ = at::cat(owners);
  const auto count = static_cast<int64_t>(layers_.size());
  sums_ = at::zeros({running_.numel() + count}, running_.options().dtype(at::kDouble));
  int64_t offset = 0;
  for (int64_t i = 0; i < count; ++i) {
    BatchNorm& layer = *layers_[i];
    const int64_t channels = layer.running_mean_.numel();
    layer.running_mean_.set_data(running_.narrow(0, offset, channels));
    layer.running_var_.set_data(running_.narrow(0, offset + channels, channels));
    layer.num_batches_tracked_.set_data(tracked_.select(0, i));
    layer.sum_ = sums_.narrow(0, offset, 2 * channels).view({2, channels});
    layer.count_ = sums_.narrow(0, running_.numel() + i, 1);
    offset += 2 * channels;
  }
}

void RunningStatistics::BeginStep() { sums_.zero_(); }

void RunningStatistics::Move() {
  if (empty()) return;
  torch::NoGradGuard no_grad;
  const int64_t values = running_.numel();
  const at::Tensor of_layer = sums_.narrow(0, values, sums_.numel() - values);
  const at::Tensor counts = of_layer.index_select(0, layer_of_);
  const at::Tensor mean = (sums_.narrow(0, 0, values) / counts).to(running_.scalar_type());
  // Buffers stay if their layer saw no sample, whatever `mean` contains then.
  running_.copy_(at::where(counts > 0, running_.lerp(mean, BatchNorm::kMomentum), running_));
  tracked_.add_(of_layer > 0);
}

}  // namespace mtrun::models
