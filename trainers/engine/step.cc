#include "trainers/engine/step.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "trainers/collectives/device_group.h"
#include "trainers/engine/generator.h"
#include "trainers/engine/torch_status.h"

namespace mtrun::engine {
namespace {

/// The loss scale is halved each time: from 65536 this many lead to 2^-48, so it is not the scale any more.
constexpr int64_t kMostSkippedInARow = 64;

}  // namespace

StepRunner::StepRunner(Task& task, ShardSource& source, DataParallel& data_parallel, Learner& learner,
                       const Options& options)
    : task_(task),
      source_(source),
      data_parallel_(data_parallel),
      learner_(learner),
      options_(options),
      device_(learner.trained().front().device()),
      tally_(data_parallel, source.shards(), options.graphs || !device_.is_cpu()) {
  if (options_.graphs) {
    MT_CHECK(options_.sync_shards == 0) << "recorded steps with synchronised batch normalisation";
    recorded_passes_.emplace(options_.graphs);
    recorded_update_.emplace(options_.graphs);
    learner_.KeepRateOnDevice();
  }
  learner_.BindGradients(data_parallel_.gradients());
  data_parallel_.SumAlso(learner_.statistics());
}

std::vector<SyncRound> StepRunner::OwnShards(int64_t step, int rank, int world_size) const {
  std::vector<SyncRound> own;
  const ShardRange range = ShardsOf(source_.shards(), rank, world_size);
  for (int64_t shard = range.begin; shard < range.end; ++shard) {
    if (source_.SamplesInShard(step, shard) > 0) own.push_back({{shard, shard + 1}, {}});
  }
  return own;
}

std::vector<SyncRound> StepRunner::SyncRounds(int64_t step, int rank, int world_size) {
  if (!sync_) sync_ = MakeSyncBatchNorm(task_.module(), data_parallel_.group(), rank, world_size);
  int64_t filled = 0;
  while (filled < source_.shards() && source_.SamplesInShard(step, filled) > 0) ++filled;
  return PlanSyncRounds(source_.shards(), filled, options_.sync_shards, rank, world_size);
}

std::vector<SyncRound> StepRunner::Passes(int64_t step, int rank, int world_size) {
  return options_.sync_shards > 0 ? SyncRounds(step, rank, world_size) : OwnShards(step, rank, world_size);
}

Batch StepRunner::BatchOf(int64_t step, ShardRange shards) {
  if (shards.size() == 1) return source_.Make(step, shards.begin);
  if (shards.empty()) {
    const Batch like = source_.Make(step, 0);
    return {like.images.narrow(0, 0, 0), like.labels.narrow(0, 0, 0)};
  }
  std::vector<at::Tensor> images, labels;
  for (int64_t shard = shards.begin; shard < shards.end; ++shard) {
    const Batch batch = source_.Make(step, shard);
    images.push_back(batch.images);
    labels.push_back(batch.labels);
  }
  return {at::cat(images), at::cat(labels)};
}

/// What comes behind this pass if the next step is cut as this one.
void StepRunner::LookAhead(int64_t step, const std::vector<SyncRound>& passes, size_t pass) {
  const bool last = pass + 1 == passes.size();
  const int64_t next = last ? step + 1 : step;
  const ShardRange shards = passes[last ? 0 : pass + 1].shards;
  if (shards.size() == 1 && source_.SamplesInShard(next, shards.begin) > 0) source_.Ahead(next, shards.begin);
}

Chance StepRunner::ChanceOf(int64_t step, int64_t shard, int64_t samples) const {
  const ShardId id{options_.seed, step, shard};
  at::Generator during;
  if (task_.draws_during_pass()) during = ShardGenerator(id.seed, step, shard, "dropout", device_);
  return {task_.Draw(samples, id), std::move(during)};
}

void StepRunner::ForwardAndBackward(size_t pass, const Batch& batch, const Chance& chance,
                                    int64_t samples_in_step, const std::function<void()>& before_backward) {
  const auto forward = [&] {
    const Autocast autocast(device_.type(), options_.precision);
    return task_.Train(batch, chance);
  };
  const Task::Output output = forward();
  const double weight = ShardWeight(batch.labels.size(0), samples_in_step);
  tally_.Add(pass, output, weight);
  before_backward();
  // The weight as the gradient of the loss: the same product as weighting the loss, one operation less each
  // way.
  torch::autograd::backward({output.loss}, {learner_.RootGradient(output.loss, weight)});
}

void StepRunner::Compute(int64_t step, const std::vector<SyncRound>& passes) {
  Reach(Fault::At::kForward, step);
  if (ComputeRecorded(step, passes)) return;
  // A member without shards has wishes all the same.
  if (passes.empty()) tally_.End();
  for (size_t i = 0; i < passes.size(); ++i) {
    const Batch batch = BatchOf(step, passes[i].shards);
    LookAhead(step, passes, i);
    if (sync_) sync_->SetRound(passes[i].members);
    ForwardAndBackward(i, batch, ChanceOf(step, passes[i].shards.begin, batch.labels.size(0)),
                       source_.SamplesInStep(step), [&] {
                         if (i + 1 < passes.size()) return;
                         Reach(Fault::At::kBackward, step);
                         tally_.End();
                         data_parallel_.LastRound();
                       });
  }
}

/// With the sums over the workers behind the recording: what is recorded outlives no communicator, and
/// aborting one meets nothing that it could be part of. False: this step is not due to be one.
bool StepRunner::ComputeRecorded(int64_t step, const std::vector<SyncRound>& passes) {
  if (!recorded_passes_) return false;
  WorkShape shape{{}, source_.SamplesInStep(step)};
  for (const SyncRound& pass : passes)
    shape.samples.push_back(source_.SamplesInShard(step, pass.shards.begin));
  const GraphPlan::Action action = recorded_passes_->Next(shape);
  if (action == GraphPlan::Action::kEager) return false;
  std::vector<PassInputs> inputs;
  for (size_t i = 0; i < passes.size(); ++i) {
    const int64_t shard = passes[i].shards.begin;
    inputs.push_back({source_.Inputs(step, shard), ChanceOf(step, shard, shape.samples[i])});
  }
  Reach(Fault::At::kBackward, step);
  recorded_passes_->Do(action, inputs, [this, n = shape.samples_in_step](const std::vector<PassInputs>& own) {
    for (size_t i = 0; i < own.size(); ++i)
      ForwardAndBackward(i, source_.Compose(own[i].batch), own[i].chance, n, [] {});
  });
  LookAhead(step, passes, passes.size() - 1);
  return true;
}

void StepRunner::Update(const std::function<void()>& update) {
  const GraphPlan::Action action =
      recorded_update_ ? recorded_update_->Next({{1}, 1}) : GraphPlan::Action::kEager;
  if (action == GraphPlan::Action::kEager) {
    update();
  } else {
    recorded_update_->Do(action, {}, [update](const std::vector<PassInputs>&) { update(); });
  }
}

absl::StatusOr<StepResult> StepRunner::Run(int64_t step, int rank, int world_size, double learning_rate,
                                           Wishes wishes) {
  data_parallel_.BeginStep();
  learner_.BeginStep();
  tally_.Begin(wishes);
  MT_RETURN_IF_ERROR(TorchStatus(absl::StrCat("step ", step), [&] {
    const std::vector<SyncRound> passes = Passes(step, rank, world_size);
    first_shards_.clear();
    for (const SyncRound& pass : passes) first_shards_.push_back(pass.shards.begin);
    Compute(step, passes);
  }));
  Reach(Fault::At::kAllReduce, step);
  MT_RETURN_IF_ERROR(Annotate(data_parallel_.FinishStep(), absl::StrCat("step ", step)));
  const std::vector<double> stats = data_parallel_.Stats();
  // Reading them has waited for the device; what an aborted NCCL leaves behind are no sums.
  if (device_.is_cuda()) MT_RETURN_IF_ERROR(collectives::GroupStatus(data_parallel_.group()));
  const bool finite = std::isfinite(stats[0]);
  if (!learner_.scales_loss()) MT_RETURN_IF_ERROR(CheckFinite(step, stats[0]));
  bool applied = false;
  MT_RETURN_IF_ERROR(TorchStatus(absl::StrCat("update of step ", step), [&] {
    applied = learner_.Apply(learning_rate, finite, [this](const auto& update) { Update(update); });
  }));
  Reach(Fault::At::kApply, step);
  skipped_in_a_row_ = applied ? 0 : skipped_in_a_row_ + 1;
  if (skipped_in_a_row_ > kMostSkippedInARow) {
    return absl::OutOfRangeError(
        absl::StrCat("step ", step, ": gradients are not finite at any loss scale for ", skipped_in_a_row_,
                     " steps in a row. A lower learning_rate, a warm-up or --amp off usually helps"));
  }
  return StepResult{stats[0],
                    std::llround(stats[1]),
                    source_.SamplesInStep(step),
                    !applied,
                    static_cast<int>(std::lround(stats[2])),
                    static_cast<int>(std::lround(stats[3]))};
}

absl::Status StepRunner::CheckFinite(int64_t step, double loss) const {
  if (std::isfinite(loss)) return absl::OkStatus();
  std::vector<int64_t> bad;
  for (const size_t pass : tally_.NotFinite()) bad.push_back(first_shards_[pass]);
  const std::string where =
      bad.empty() ? "in another worker's shards" : absl::StrCat("in shard ", absl::StrJoin(bad, ", "));
  return absl::OutOfRangeError(absl::StrCat("the loss of step ", step, " is ",
                                            std::isnan(loss) ? "nan" : "infinite", " (", where,
                                            "); the weights are those before the step. A lower learning_rate "
                                            "or a warm-up usually helps"));
}

}  // namespace mtrun::engine
