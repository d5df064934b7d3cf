#include "trainers/tasks/classifier.h"

#include "trainers/step/confusion_matrix.h"
#include "trainers/tasks/mixed_images.h"

namespace mtrun::trainers {
namespace {

template <typename Real>
int64_t CountCorrectOnCpu(const at::Tensor& logits, const at::Tensor& labels) {
  const auto row = logits.accessor<Real, 2>();
  const auto label = labels.accessor<int64_t, 1>();
  int64_t correct = 0;
  for (int64_t i = 0; i < row.size(0); ++i) {
    int64_t best = 0;
    for (int64_t c = 1; c < row.size(1); ++c) best = row[i][c] > row[i][best] ? c : best;
    correct += best == label[i];
  }
  return correct;
}

/// Counts right predictions. If a step takes less than a millisecond, tensor operations cost more than loops.
void CountCorrect(const at::Tensor& logits, const at::Tensor& labels, Task::Output& output) {
  if (logits.is_cpu() && logits.scalar_type() == at::kFloat) {
    output.correct = CountCorrectOnCpu<float>(logits, labels);
  } else if (logits.is_cpu() && logits.scalar_type() == at::kDouble) {
    output.correct = CountCorrectOnCpu<double>(logits, labels);
  } else {
    output.counted = logits.argmax(1).eq(labels).sum();
  }
}

/// Widens half precision: losses are computed in float32 at least, and so are their weights.
at::Tensor Wide(const at::Tensor& x) {
  return x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf ? x.to(at::kFloat) : x;
}

}  // namespace

at::Tensor MeanCrossEntropy(const at::Tensor& logits, const at::Tensor& labels) {
  return at::cross_entropy_loss(logits, labels);
}

MeanLoss LossOf(const ClassifierOptions& options, const at::Device& device) {
  const double smoothing = options.smoothing;
  if (options.class_weights.empty()) {
    return [smoothing](const at::Tensor& logits, const at::Tensor& labels) {
      return at::cross_entropy_loss(logits, labels, /*weight=*/{}, at::Reduction::Mean, /*ignore_index=*/-100,
                                    smoothing);
    };
  }
  const at::Tensor weights = at::tensor(options.class_weights, at::kDouble).to(device);
  return [smoothing, weights](const at::Tensor& logits, const at::Tensor& labels) {
    const at::Tensor sum = at::cross_entropy_loss(logits, labels, weights.to(logits.scalar_type()),
                                                  at::Reduction::Sum, /*ignore_index=*/-100, smoothing);
    return sum / labels.size(0);
  };
}

std::vector<double> BalancedWeights(const std::vector<int64_t>& images_of_class) {
  double images = 0, classes = 0;
  for (const int64_t count : images_of_class) {
    images += static_cast<double>(count);
    classes += count > 0;
  }
  std::vector<double> weights;
  for (const int64_t count : images_of_class)
    weights.push_back(count > 0 ? images / (classes * static_cast<double>(count)) : 0);
  return weights;
}

ClassifierTask::ClassifierTask(Model model, MeanLoss loss, int classes, const ClassifierOptions& options)
    : Task(model.module),
      model_(std::move(model)),
      loss_(std::move(loss)),
      classes_(classes),
      mixing_(options.mixing),
      weighs_classes_(!options.class_weights.empty()) {}

std::vector<at::Tensor> ClassifierTask::Draw(int64_t, const MicroBatchId& micro_batch) const {
  if (!mixes()) return {};
  const auto& [seed, step, number] = micro_batch;
  const RandomStream stream(seed, step, number, "mixing");
  return {OnDevice(DrawMixing(mixing_, stream), module().parameters().front().device())};
}

Task::Output ClassifierTask::Train(const Batch& batch, const RandomInputs& random) {
  if (model_.set_stream) model_.set_stream(random.stream);
  const bool empty = batch.labels.size(0) == 0;
  MixedImages mixed{batch.images, {}};
  if (mixes() && !empty) mixed = Mix(batch.images, random.drawn[0]);
  const at::Tensor logits = Wide(model_.forward(mixed.images));
  // The mean over zero samples would be NaN.
  if (empty) return {logits.sum() * 0, 0, {}};
  at::Tensor loss = loss_(logits, batch.labels);
  if (mixes()) loss = at::lerp(loss_(logits, MovedOn(batch.labels)), loss, mixed.kept.to(loss.scalar_type()));
  Output output{loss, 0, {}};
  CountCorrect(logits.detach(), batch.labels, output);
  return output;
}

at::Tensor ClassifierTask::Scores(const at::Tensor& images) { return Wide(model_.forward(images)); }

void ClassifierTask::Evaluate(const Batch& batch, int64_t, Sums& sums) {
  const at::Tensor logits = Wide(model_.forward(batch.images));
  const auto n = static_cast<double>(batch.labels.size(0));
  sums.loss.add_(MeanCrossEntropy(logits, batch.labels).to(at::kDouble).mul(n));
  const at::Tensor cells = batch.labels * classes_ + logits.argmax(1);
  sums.confusion.index_add_(0, cells, at::ones_like(cells));
  const auto [probabilities, likeliest] = logits.softmax(1).max(1);
  sums.guesses.push_back(
      at::stack({batch.labels.to(at::kDouble), likeliest.to(at::kDouble), probabilities.to(at::kDouble)}));
  if (sums.top5.numel() == 0) return;
  const at::Tensor guesses = std::get<1>(logits.topk(5, 1));
  sums.top5.add_(guesses.eq(batch.labels.unsqueeze(1)).sum());
}

std::unique_ptr<Task> Classify(Model model, int64_t classes, const ClassifierOptions& options,
                               const at::Device& device) {
  return std::make_unique<ClassifierTask>(std::move(model), LossOf(options, device),
                                          static_cast<int>(classes), options);
}

}  // namespace mtrun::trainers
