#include "trainers/step/evaluate.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
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

/// Reads the device's sums at once: the losses, then the counts, which float64 holds exactly.
at::Tensor Read(const Task::Sums& sums, const at::Tensor& losses) {
  return at::cat({losses, sums.confusion.to(at::kDouble), sums.top5.to(at::kDouble)}).cpu();
}

/// Sums over all workers without a device. Neither sum depends on the number of workers.
void SumOverWorkers(const collectives::ProcessGroup& group, ExactSum& loss, const at::Tensor& counts) {
  if (!group) return;
  std::string own(sizeof(loss), '\0');
  std::memcpy(own.data(), &loss, sizeof(loss));
  loss = ExactSum();
  for (const std::string& text : collectives::AllGather(group, own)) {
    ExactSum part;
    MT_CHECK(text.size() == sizeof(part)) << "a loss of " << text.size() << " bytes";
    std::memcpy(&part, text.data(), sizeof(part));
    loss += part;
  }
  if (counts.numel() > 0) collectives::AllReduce(group, counts);
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
  ExactSum loss;
  at::Tensor counts;  // the confusion matrix, then the samples that are right among the first five guesses
  absl::Status computed;
  MT_RETURN_IF_ERROR(TorchStatus("evaluation", [&] {
    torch::NoGradGuard no_grad;
    task.module().eval();
    Task::Sums sums = NoSums(task);
    at::Tensor losses;
    computed = AddSamples(task, batches, part, sums, &losses, each_batch);
    task.module().train();
    if (!computed.ok()) return;
    const at::Tensor read = Read(sums, losses);
    for (int64_t batch = 0; batch < losses.numel(); ++batch) loss.Add(read.const_data_ptr<double>()[batch]);
    counts = read.narrow(0, losses.numel(), read.numel() - losses.numel()).to(at::kLong);
    SumOverWorkers(group, loss, counts);
  }));
  MT_RETURN_IF_ERROR(computed);
  Evaluation result{ConfusionMatrix(0), loss.value() / static_cast<double>(part.size)};
  if (task.classes() == 0) return result;
  const int64_t cells = int64_t{task.classes()} * task.classes();
  const int64_t* const count = counts.const_data_ptr<int64_t>();
  result.matrix = ConfusionMatrix(std::vector<int64_t>(count, count + cells));
  MT_CHECK(result.matrix.total() == part.size)
      << result.matrix.total() << " of " << part.size << " samples evaluated";
  if (counts.numel() > cells)
    result.top5 = static_cast<double>(count[cells]) / static_cast<double>(part.size);
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
