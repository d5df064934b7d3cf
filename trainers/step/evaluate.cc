#include "trainers/step/evaluate.h"

#include <algorithm>
#include <numeric>

#include "base/status_macros.h"
#include "trainers/collectives/all_reduce.h"
#include "trainers/device/torch_status.h"
#include "trainers/parallel/partition.h"

namespace mtrun::trainers {
namespace {

void AddSamples(Task& task, const ImageBatches& batches, MicroBatchRange range, Task::Sums& sums,
                const std::function<void()>& each_batch) {
  for (int64_t begin = range.begin; begin < range.end; begin += kEvaluationBatch) {
    each_batch();
    std::vector<int64_t> ids(std::min(kEvaluationBatch, range.end - begin));
    std::iota(ids.begin(), ids.end(), begin);
    task.Evaluate(batches.Make(ids, {}), begin, sums);
  }
}

void Sum(const collectives::ProcessGroup& group, const at::Tensor& tensor) {
  if (group && tensor.numel() > 0) collectives::AllReduce(group, tensor);
}

}  // namespace

absl::StatusOr<Evaluation> Evaluate(Task& task, const ImageBatches& batches, int64_t size, int rank,
                                    int world_size, const collectives::ProcessGroup& group,
                                    const std::function<void()>& each_batch) {
  const int classes = task.classes();
  Task::Sums sums;
  sums.confusion.resize(static_cast<size_t>(classes) * classes);
  MT_RETURN_IF_ERROR(TorchStatus("evaluation", [&] {
    torch::NoGradGuard no_grad;
    task.module().eval();
    AddSamples(task, batches, MicroBatchesOf(size, rank, world_size), sums, each_batch);
    Sum(group,
        at::from_blob(sums.confusion.data(), {static_cast<int64_t>(sums.confusion.size())}, at::kLong));
    Sum(group, at::from_blob(&sums.loss, {1}, at::kDouble));
    Sum(group, at::from_blob(&sums.top5, {1}, at::kLong));
    task.module().train();
  }));
  Evaluation result{ConfusionMatrix(0), sums.loss / static_cast<double>(size)};
  if (classes == 0) return result;
  result.matrix = ConfusionMatrix(std::move(sums.confusion));
  MT_CHECK(result.matrix.total() == size) << result.matrix.total() << " of " << size << " samples evaluated";
  if (classes >= kManyClasses) result.top5 = static_cast<double>(sums.top5) / static_cast<double>(size);
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
