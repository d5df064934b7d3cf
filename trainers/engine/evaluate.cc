#include "trainers/engine/evaluate.h"

#include <algorithm>
#include <numeric>

#include "base/status_macros.h"
#include "trainers/engine/shards.h"
#include "trainers/engine/torch_status.h"

namespace mtrun::engine {
namespace {

/// Adds the samples [begin, end); returns the sum of their losses.
double AddSamples(const Model& model, const MeanLoss& loss, const BatchMaker& batches, ShardRange range,
                  ConfusionMatrix& matrix) {
  double total = 0;
  for (int64_t begin = range.begin; begin < range.end; begin += kEvaluationBatch) {
    std::vector<int64_t> ids(std::min(kEvaluationBatch, range.end - begin));
    std::iota(ids.begin(), ids.end(), begin);
    const Batch batch = batches.Make(ids);
    const at::Tensor logits = model.forward(batch.images);
    total += loss(logits, batch.labels).item<double>() * static_cast<double>(ids.size());
    const at::Tensor predicted = logits.argmax(1).cpu(), actual = batch.labels.cpu();
    for (size_t i = 0; i < ids.size(); ++i) {
      matrix.Add(actual.const_data_ptr<int64_t>()[i], predicted.const_data_ptr<int64_t>()[i]);
    }
  }
  return total;
}

void Sum(const collectives::ProcessGroup& group, at::Tensor tensor) {
  if (!group) return;
  std::vector<at::Tensor> one{std::move(tensor)};
  group->allreduce(one, c10d::AllreduceOptions())->wait();
}

}  // namespace

absl::StatusOr<Evaluation> Evaluate(const Model& model, const MeanLoss& loss, const BatchMaker& batches,
                                    int64_t size, int classes, int rank, int world_size,
                                    const collectives::ProcessGroup& group) {
  Evaluation result{ConfusionMatrix(classes), 0};
  MT_RETURN_IF_ERROR(TorchStatus("evaluation", [&] {
    torch::NoGradGuard no_grad;
    model.module->eval();
    at::Tensor total = at::zeros({1}, at::kDouble);
    *total.data_ptr<double>() =
        AddSamples(model, loss, batches, ShardsOf(size, rank, world_size), result.matrix);
    at::Tensor counts = at::tensor(result.matrix.counts(), at::kLong);
    Sum(group, counts);
    Sum(group, total);
    const int64_t* summed = counts.const_data_ptr<int64_t>();
    result = {ConfusionMatrix(std::vector<int64_t>(summed, summed + counts.numel())),
              total.item<double>() / size};
    model.module->train();
  }));
  MT_CHECK(result.matrix.total() == size) << result.matrix.total() << " of " << size << " samples evaluated";
  return result;
}

}  // namespace mtrun::engine
