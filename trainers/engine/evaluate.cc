#include "trainers/engine/evaluate.h"

#include <algorithm>
#include <numeric>

#include "base/status_macros.h"
#include "trainers/engine/shards.h"
#include "trainers/engine/torch_status.h"

namespace mtrun::engine {
namespace {

void AddSamples(Task& task, const ImageBatches& batches, ShardRange range, Task::Sums& sums,
                const std::function<void()>& each_batch) {
  for (int64_t begin = range.begin; begin < range.end; begin += kEvaluationBatch) {
    each_batch();
    std::vector<int64_t> ids(std::min(kEvaluationBatch, range.end - begin));
    std::iota(ids.begin(), ids.end(), begin);
    task.Evaluate(batches.Make(ids, {}), begin, sums);
  }
}

void Sum(const collectives::ProcessGroup& group, at::Tensor tensor) {
  if (!group || tensor.numel() == 0) return;
  std::vector<at::Tensor> one{std::move(tensor)};
  group->allreduce(one, c10d::AllreduceOptions())->wait();
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
    AddSamples(task, batches, ShardsOf(size, rank, world_size), sums, each_batch);
    Sum(group,
        at::from_blob(sums.confusion.data(), {static_cast<int64_t>(sums.confusion.size())}, at::kLong));
    Sum(group, at::from_blob(&sums.loss, {1}, at::kDouble));
    task.module().train();
  }));
  Evaluation result{ConfusionMatrix(0), sums.loss / static_cast<double>(size)};
  if (classes == 0) return result;
  result.matrix = ConfusionMatrix(std::move(sums.confusion));
  MT_CHECK(result.matrix.total() == size) << result.matrix.total() << " of " << size << " samples evaluated";
  return result;
}

}  // namespace mtrun::engine
