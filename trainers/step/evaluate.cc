#include "trainers/step/evaluate.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "trainers/collectives/all_reduce.h"
#include "trainers/device/torch_status.h"
#include "trainers/device/transfer.h"
#include "trainers/parallel/partition.h"
#include "trainers/step/exact_sum.h"

namespace mtrun::trainers {
namespace {

Task::Sums NoSums(const Task& task) {
  const at::TensorOptions where(task.module().parameters().front().device());
  const int64_t classes = task.classes();
  const at::TensorOptions counts = where.dtype(at::kLong);
  return {at::zeros({1}, where.dtype(at::kDouble)), at::zeros({classes * classes}, counts),
          at::zeros({classes >= kManyClasses ? 1 : 0}, counts)};
}

/// Returns whole batches, because an image's result can depend on the batch size in the last bit.
MicroBatchRange RangeOf(const EvaluationPart& part, int64_t at_once) {
  const int64_t batches = (part.size + at_once - 1) / at_once;
  const MicroBatchRange range = MicroBatchesOf(batches, part.rank, part.world_size);
  return {range.begin * at_once, std::min(range.end * at_once, part.size)};
}

/// Evaluates this worker's samples. At most two batches are queued on the device, because the images of each
/// take memory until it has been computed. Sets losses [batches] on the device; sums.loss is 0 then.
absl::Status AddSamples(Task& task, const ImageBatches& batches, const EvaluationPart& part, Task::Sums& sums,
                        at::Tensor* losses, const std::function<absl::Status()>& each_batch) {
  const at::Device device = sums.loss.device();
  const int64_t at_once = EvaluationBatch(part.image_size, device.is_cpu());
  const MicroBatchRange range = RangeOf(part, at_once);
  *losses = at::zeros({(range.size() + at_once - 1) / at_once}, sums.loss.options());
  std::function<absl::Status()> computed;
  for (int64_t begin = range.begin; begin < range.end; begin += at_once) {
    MT_RETURN_IF_ERROR(each_batch());
    std::vector<int64_t> ids(std::min(at_once, range.end - begin));
    std::iota(ids.begin(), ids.end(), begin);
    {
      const Autocast autocast(device.type(), part.precision);
      task.Evaluate(batches.Make(ids, {}), begin, sums);
    }
    losses->select(0, (begin - range.begin) / at_once).copy_(sums.loss[0]);
    sums.loss.zero_();
    const auto last = std::exchange(computed, Arrival(device));
    if (last) MT_RETURN_IF_ERROR(last());
  }
  return absl::OkStatus();
}

/// What this worker has computed, in host memory.
struct Own {
  ExactSum loss;
  at::Tensor counts;  // the confusion matrix, then the samples that are right among the first five guesses
  NotableImages notable;
};

/// Reads the device's results at once; float64 holds the counts exactly. `first`: of the guesses.
Own Read(const Task::Sums& sums, const at::Tensor& losses, int64_t first) {
  const at::Tensor guesses =
      sums.guesses.empty() ? at::empty({3, 0}, losses.options()) : at::cat(sums.guesses, 1);
  const at::Tensor read =
      at::cat({losses, sums.confusion.to(at::kDouble), sums.top5.to(at::kDouble), guesses.flatten()}).cpu();
  const double* const value = read.const_data_ptr<double>();
  const int64_t batches = losses.numel(), counts = sums.confusion.numel() + sums.top5.numel(),
                n = guesses.size(1);
  Own own;
  for (int64_t batch = 0; batch < batches; ++batch) own.loss.Add(value[batch]);
  own.counts = read.narrow(0, batches, counts).to(at::kLong);
  const double* const label = value + batches + counts;
  for (int64_t i = 0; i < n; ++i)
    own.notable.Add({.image = first + i,
                     .label = static_cast<int32_t>(label[i]),
                     .guess = static_cast<int32_t>(label[n + i]),
                     .probability = label[2 * n + i]});
  return own;
}

/// Adds up what all workers have, without a device. Nothing of it depends on the number of workers.
void AddOverWorkers(const collectives::ProcessGroup& group, const EvaluationPart& part, Own& all) {
  if (!group) return;
  std::string own(sizeof(all.loss), '\0');
  std::memcpy(own.data(), &all.loss, sizeof(all.loss));
  all.loss = ExactSum();
  for (const std::string& text : collectives::AllGather(group, own)) {
    ExactSum loss;
    MT_CHECK(text.size() == sizeof(loss)) << "a loss of " << text.size() << " bytes";
    std::memcpy(&loss, text.data(), sizeof(loss));
    all.loss += loss;
  }
  if (all.counts.numel() == 0) return;
  // The images of each worker have places of their own, in which the others add 0.
  constexpr auto kNumbers = static_cast<int64_t>(NotableImages::kNumbers);
  at::Tensor images = at::zeros({part.world_size, kNumbers}, at::kLong);
  const std::vector<int64_t> numbers = all.notable.ToNumbers();
  std::copy(numbers.begin(), numbers.end(), images.data_ptr<int64_t>() + part.rank * kNumbers);
  const at::Tensor sums = at::cat({all.counts, images.flatten()});
  collectives::AllReduce(group, sums);
  const int64_t counts = all.counts.numel();
  all.counts = sums.narrow(0, 0, counts);
  all.notable = NotableImages();
  for (int rank = 0; rank < part.world_size; ++rank) {
    const auto notable = NotableImages::FromNumbers(
        {sums.const_data_ptr<int64_t>() + counts + rank * kNumbers, NotableImages::kNumbers});
    MT_CHECK(notable.ok()) << notable.status();
    all.notable.Add(*notable);
  }
}

}  // namespace

int64_t EvaluationBatch(int image_size, bool on_cpu) {
  constexpr int64_t kPixels = kEvaluationBatch * 224 * 224;
  const int64_t pixels = std::max(int64_t{1}, int64_t{image_size} * image_size);
  return std::clamp(kPixels / pixels, int64_t{1}, on_cpu ? kEvaluationBatch : kEvaluationBatchOnDevice);
}

absl::StatusOr<Evaluation> Evaluate(Task& task, const ImageBatches& batches, const EvaluationPart& part,
                                    const collectives::ProcessGroup& group,
                                    const std::function<absl::Status()>& each_batch) {
  Own all;
  absl::Status computed;
  MT_RETURN_IF_ERROR(TorchStatus("evaluation", [&] {
    torch::NoGradGuard no_grad;
    task.module().eval();
    Task::Sums sums = NoSums(task);
    at::Tensor losses;
    computed = AddSamples(task, batches, part, sums, &losses, each_batch);
    task.module().train();
    if (!computed.ok()) return;
    const int64_t at_once = EvaluationBatch(part.image_size, sums.loss.device().is_cpu());
    all = Read(sums, losses, RangeOf(part, at_once).begin);
    AddOverWorkers(group, part, all);
  }));
  MT_RETURN_IF_ERROR(computed);
  Evaluation result{ConfusionMatrix(0), all.loss.value() / static_cast<double>(part.size)};
  if (task.classes() == 0) return result;
  const int64_t cells = int64_t{task.classes()} * task.classes();
  const int64_t* const count = all.counts.const_data_ptr<int64_t>();
  result.matrix = ConfusionMatrix(std::vector<int64_t>(count, count + cells));
  MT_CHECK(result.matrix.total() == part.size)
      << result.matrix.total() << " of " << part.size << " samples evaluated";
  if (all.counts.numel() > cells)
    result.top5 = static_cast<double>(count[cells]) / static_cast<double>(part.size);
  result.notable = std::move(all.notable);
  return result;
}

absl::Status DrawPicture(Task& task, const std::string& path) {
  absl::Status drawn;
  MT_RETURN_IF_ERROR(TorchStatus("samples", [&] {
    torch::NoGradGuard no_grad;
    task.module().eval();
    drawn = task.DrawPicture(path);
    task.module().train();
  }));
  return drawn;
}

}  // namespace mtrun::trainers
