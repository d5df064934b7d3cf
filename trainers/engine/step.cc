#include "trainers/engine/step.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "trainers/engine/torch_status.h"

namespace mtrun::engine {
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

/// Four tensor operations cost more than these few comparisons where a step takes less than a millisecond.
int64_t CountCorrect(const at::Tensor& logits, const at::Tensor& labels) {
  if (logits.is_cpu() && logits.scalar_type() == at::kFloat) return CountCorrectOnCpu<float>(logits, labels);
  if (logits.is_cpu() && logits.scalar_type() == at::kDouble)
    return CountCorrectOnCpu<double>(logits, labels);
  return logits.argmax(1).eq(labels).sum().item<int64_t>();
}

}  // namespace

StepRunner::StepRunner(const Model& model, const MeanLoss& loss, ShardSource& source,
                       DataParallel& data_parallel, Optimizer& optimizer)
    : model_(model), loss_(loss), source_(source), data_parallel_(data_parallel), optimizer_(optimizer) {}

std::vector<StepRunner::Shard> StepRunner::OwnShards(int64_t step, int rank, int world_size) const {
  std::vector<Shard> own;
  const ShardRange range = ShardsOf(source_.shards(), rank, world_size);
  for (int64_t shard = range.begin; shard < range.end; ++shard) {
    if (const int64_t samples = source_.SamplesInShard(step, shard); samples > 0)
      own.push_back({shard, samples});
  }
  return own;
}

void StepRunner::ComputeShards(int64_t step, const std::vector<Shard>& shards) {
  const int64_t samples_in_step = source_.SamplesInStep(step);
  double total = 0;
  int64_t correct = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const Batch batch = source_.Make(step, shards[i].id);
    const at::Tensor logits = model_.forward(batch.images);
    const at::Tensor loss = loss_(logits, batch.labels);
    const double weight = ShardWeight(shards[i].samples, samples_in_step);
    const double value = loss.item<double>();
    if (!std::isfinite(value)) bad_shards_.push_back(shards[i].id);
    total += weight * value;
    correct += CountCorrect(logits.detach(), batch.labels);
    if (i + 1 == shards.size()) {
      data_parallel_.SetStats({total, static_cast<double>(correct)});
      data_parallel_.LastRound();
    }
    // The weight as the gradient of the loss: the same product as weighting the loss, one operation less each
    // way.
    torch::autograd::backward({loss}, {at::scalar_tensor(weight, loss.options().requires_grad(false))});
  }
}

absl::StatusOr<StepResult> StepRunner::Run(int64_t step, int rank, int world_size, double learning_rate) {
  bad_shards_.clear();
  data_parallel_.BeginStep();
  const std::vector<Shard> shards = OwnShards(step, rank, world_size);
  MT_RETURN_IF_ERROR(TorchStatus(absl::StrCat("step ", step), [&] { ComputeShards(step, shards); }));
  MT_RETURN_IF_ERROR(Annotate(data_parallel_.FinishStep(), absl::StrCat("step ", step)));
  const std::vector<double> stats = data_parallel_.Stats();
  MT_RETURN_IF_ERROR(CheckFinite(step, stats[0]));
  optimizer_.Step(learning_rate);
  return StepResult{stats[0], std::llround(stats[1]), source_.SamplesInStep(step)};
}

absl::Status StepRunner::CheckFinite(int64_t step, double loss) const {
  if (std::isfinite(loss)) return absl::OkStatus();
  const std::string where = bad_shards_.empty() ? "in another worker's shards"
                                                : absl::StrCat("in shard ", absl::StrJoin(bad_shards_, ", "));
  return absl::OutOfRangeError(absl::StrCat("the loss of step ", step, " is ",
                                            std::isnan(loss) ? "nan" : "infinite", " (", where,
                                            "); the weights are those before the step. A lower learning_rate "
                                            "or a warm-up usually helps"));
}

}  // namespace mtrun::engine
