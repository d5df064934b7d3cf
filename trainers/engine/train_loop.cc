#include "trainers/engine/train_loop.h"

#include <algorithm>
#include <chrono>

#include "base/status_macros.h"
#include "trainers/engine/generator.h"

namespace mtrun::engine {
namespace {

constexpr Duration kTellAgentEvery = std::chrono::seconds(1);

int64_t StepsOfRun(const TrainOptions& options, int64_t steps_per_epoch) {
  const int64_t all = options.epochs * steps_per_epoch;
  return options.max_steps > 0 ? std::min(all, options.max_steps) : all;
}

Schedule ScheduleOf(const TrainOptions& options, int64_t steps_per_epoch) {
  Schedule schedule = options.schedule;
  schedule.steps = StepsOfRun(options, steps_per_epoch);
  return schedule;
}

}  // namespace

std::vector<at::Tensor> TrainedParameters(const torch::nn::Module& module) {
  std::vector<at::Tensor> trained;
  for (const auto& parameter : module.parameters()) {
    if (parameter.requires_grad()) trained.push_back(parameter);
  }
  return trained;
}

DatasetShards::DatasetShards(const datasets::PackedSplit& data, const TrainOptions& options,
                             const BatchMaker::Options& batch)
    : plan_(options.plan),
      sampler_(options.seed, data.size(), options.plan, options.shuffle),
      batches_(data, batch),
      augmentation_(options.augmentation),
      seed_(options.seed) {}

int64_t DatasetShards::SamplesInStep(int64_t step) const {
  return sampler_.samples_in_step(step % sampler_.steps_per_epoch());
}

int64_t DatasetShards::SamplesInShard(int64_t step, int64_t shard) const {
  return sampler_.samples_in_shard(step % sampler_.steps_per_epoch(), shard);
}

Batch DatasetShards::Make(int64_t step, int64_t shard) {
  const int64_t each = sampler_.steps_per_epoch();
  const std::vector<int64_t> ids = sampler_.Shard(step / each, step % each, shard);
  if (!augmentation_.any()) return batches_.Make(ids);
  const NamedStream stream = ShardStream(seed_, step, shard, "augment");
  return batches_.Make(ids, DrawPlacements(augmentation_, stream, static_cast<int64_t>(ids.size())));
}

TrainLoop::TrainLoop(const Inputs& inputs, Team& team, MetricsLog* log, ProgressLine& progress,
                     TimePoint start)
    : in_(inputs),
      team_(team),
      log_(log),
      progress_(progress),
      start_(start),
      source_(inputs.train, inputs.options, inputs.batch),
      test_batches_(inputs.test, inputs.batch),
      data_parallel_(TrainedParameters(*inputs.model.module), team.group(), StepRunner::kStats),
      optimizer_(MakeOptimizer(inputs.options.optimizer, TrainedParameters(*inputs.model.module),
                               data_parallel_.gradients())),
      runner_(inputs.model, inputs.program.loss, source_, data_parallel_, *optimizer_),
      schedule_(ScheduleOf(inputs.options, source_.steps_per_epoch())),
      pacer_(progress.terminal(), inputs.options.log_every, MonotonicNow()) {
  const Assignment& who = team.assignment();
  report_.program = inputs.program.name;
  report_.class_names = inputs.test.class_names();
  report_.global_batch = inputs.options.plan.global_batch;
  report_.micro_batch = inputs.options.plan.micro_batch;
  report_.world_size = who.world_size;
  report_.nodes = who.nodes;
}

absl::StatusOr<RunReport> TrainLoop::Run() {
  MT_RETURN_IF_ERROR(data_parallel_.Broadcast(in_.model.module->parameters()));
  MT_RETURN_IF_ERROR(data_parallel_.Broadcast(in_.model.module->buffers()));
  in_.model.module->train();
  shown_ = MonotonicNow();
  for (int64_t epoch = 0; step_ < schedule_.steps; ++epoch) {
    MT_RETURN_IF_ERROR(RunEpoch(epoch, std::min(schedule_.steps, (epoch + 1) * source_.steps_per_epoch())));
  }
  report_.steps = step_;
  report_.seconds = ToSeconds(MonotonicNow() - start_);
  report_.images_per_second = static_cast<double>(samples_) / report_.training_seconds;
  return report_;
}

absl::Status TrainLoop::RunEpoch(int64_t epoch, int64_t end_step) {
  const Assignment& who = team_.assignment();
  const TimePoint began = MonotonicNow();
  sums_ = {};
  while (step_ < end_step) {
    const TimePoint step_began = MonotonicNow();
    const double learning_rate = LearningRate(schedule_, step_);
    MT_ASSIGN_OR_RETURN(const StepResult result, runner_.Run(step_, who.rank, who.world_size, learning_rate));
    MT_RETURN_IF_ERROR(AfterStep(epoch, result, learning_rate, step_began));
  }
  return FinishEpoch(epoch, ToSeconds(MonotonicNow() - began));
}

absl::Status TrainLoop::AfterStep(int64_t epoch, const StepResult& result, double learning_rate,
                                  TimePoint began) {
  const TimePoint now = MonotonicNow();
  sums_.loss += result.loss * static_cast<double>(result.samples);
  sums_.correct += result.correct;
  sums_.samples += result.samples;
  samples_ += result.samples;
  const int64_t step = step_++;
  if (now - told_ >= kTellAgentEvery) {
    told_ = now;
    team_.ReportProgress(epoch + 1, step_, samples_);
  }
  if (log_ == nullptr) return absl::OkStatus();
  if (pacer_.Due(step_, now)) ShowProgress(epoch, result, learning_rate, now);
  return log_->Write(StepRecord{.step = step,
                                .epoch = epoch + 1,
                                .loss = result.loss,
                                .learning_rate = learning_rate,
                                .samples = result.samples,
                                .seconds = ToSeconds(now - began)},
                     now);
}

void TrainLoop::ShowProgress(int64_t epoch, const StepResult& result, double learning_rate, TimePoint now) {
  const double speed = static_cast<double>(samples_ - shown_samples_) / ToSeconds(now - shown_);
  shown_ = now;
  shown_samples_ = samples_;
  const double samples_per_step = static_cast<double>(samples_) / static_cast<double>(step_);
  progress_.Show(ToText(ProgressState{
      .epoch = epoch + 1,
      .epochs = in_.options.epochs,
      .step = step_,
      .steps = schedule_.steps,
      .loss = result.loss,
      .learning_rate = learning_rate,
      .images_per_second = speed,
      .seconds_left = static_cast<double>(schedule_.steps - step_) * samples_per_step / speed,
  }));
}

absl::Status TrainLoop::FinishEpoch(int64_t epoch, double seconds) {
  const Assignment& who = team_.assignment();
  MT_ASSIGN_OR_RETURN(
      const Evaluation evaluation,
      Evaluate(in_.model, in_.program.loss, test_batches_, in_.test.size(),
               static_cast<int>(in_.test.class_names().size()), who.rank, who.world_size, team_.group()));
  const EvalRecord record{
      .steps = step_,
      .epoch = epoch + 1,
      .train_loss = sums_.loss / static_cast<double>(sums_.samples),
      .train_accuracy = static_cast<double>(sums_.correct) / static_cast<double>(sums_.samples),
      .test_loss = evaluation.loss,
      .test_accuracy = evaluation.matrix.Accuracy(),
      .seconds = seconds};
  const bool new_best = report_.history.empty() || record.test_accuracy > report_.best_accuracy;
  if (new_best) {
    report_.best_accuracy = record.test_accuracy;
    report_.best_epoch = record.epoch;
  }
  report_.matrix = evaluation.matrix;
  report_.test_loss = evaluation.loss;
  report_.epochs = record.epoch;
  report_.training_seconds += seconds;
  report_.history.push_back(record);
  progress_.Print(EpochText(record, in_.options.epochs, new_best));
  // Evaluation is not training: the next progress line measures from here.
  shown_ = MonotonicNow();
  shown_samples_ = samples_;
  return log_ == nullptr ? absl::OkStatus() : log_->Write(record);
}

}  // namespace mtrun::engine
