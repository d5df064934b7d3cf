#include "trainers/step/train_step.h"

#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainers/device/torch_status.h"
#include "trainers/random/draw.h"

namespace mtrun::trainers {
namespace {

/// Each skipped step halves the loss scale. After this many, 65536 is 2^-48, so the scale is not the cause.
constexpr int64_t kMaxSkippedInARow = 64;

}  // namespace

TrainStep::TrainStep(Task& task, MicroBatchSource& source, DataParallel& data_parallel, TrainState& state,
                     const Options& options)
    : task_(task),
      source_(source),
      data_parallel_(data_parallel),
      state_(state),
      options_(options),
      device_(state.trained().front().device()),
      stats_(device_, source.micro_batches(), options.graphs || !device_.is_cpu()) {
  if (options_.graphs) {
    MT_CHECK(options_.sync_micro_batches == 0) << "captured steps with synchronised batch normalisation";
    captured_passes_.emplace(options_.graphs);
    captured_update_.emplace(options_.graphs);
    state_.KeepRateOnDevice();
  }
  if (data_parallel_.gradients_stay()) state_.BindGradients(data_parallel_.gradients());
  MT_CHECK(data_parallel_.gradients_stay() || !options_.graphs) << "captures of gradients that move";
  data_parallel_.AddReducedTensor(state_.statistics());
}

/// Returns the number of the step's micro-batches that have samples, the first ones.
int64_t TrainStep::Filled(int64_t step) const {
  int64_t filled = 0;
  while (filled < source_.micro_batches() && source_.SamplesInMicroBatch(step, filled) > 0) ++filled;
  return filled;
}

std::vector<SyncRound> TrainStep::Passes(int64_t step, int rank, int world_size) {
  const int64_t all = source_.micro_batches();
  if (options_.sync_micro_batches > 0) {
    if (!sync_) sync_ = MakeSyncBatchNorm(task_.module(), data_parallel_.group(), rank, world_size);
    return PlanSyncRounds(all, Filled(step), options_.sync_micro_batches, rank, world_size);
  }
  std::vector<SyncRound> own;
  const MicroBatchRange range = MicroBatchesOf(all, rank, world_size);
  for (int64_t micro_batch = range.begin; micro_batch < range.end; ++micro_batch) {
    if (source_.SamplesInMicroBatch(step, micro_batch) > 0)
      own.push_back({{micro_batch, micro_batch + 1}, {}});
  }
  return own;
}

Batch TrainStep::BatchOf(int64_t step, MicroBatchRange micro_batches) {
  if (micro_batches.size() == 1) return source_.Make(step, micro_batches.begin);
  if (micro_batches.empty()) return source_.Empty(step);
  std::vector<at::Tensor> images, labels;
  datasets::SampleSum gathered;
  for (int64_t micro_batch = micro_batches.begin; micro_batch < micro_batches.end; ++micro_batch) {
    const Batch batch = source_.Make(step, micro_batch);
    images.push_back(batch.images);
    labels.push_back(batch.labels);
    gathered += batch.gathered;
  }
  return {at::cat(images), at::cat(labels), gathered};
}

/// Hints which pass follows this one, if the next step is divided like this one.
void TrainStep::LookAhead(int64_t step, const std::vector<SyncRound>& passes, size_t pass) {
  const bool last = pass + 1 == passes.size();
  const int64_t next = last ? step + 1 : step;
  const MicroBatchRange micro_batches = passes[last ? 0 : pass + 1].micro_batches;
  if (micro_batches.size() == 1 && source_.SamplesInMicroBatch(next, micro_batches.begin) > 0)
    source_.Ahead(next, micro_batches.begin);
}

RandomInputs TrainStep::RandomInputsOf(int64_t step, int64_t micro_batch, int64_t samples) const {
  RandomInputs inputs{task_.Draw(samples, {options_.seed, step, micro_batch}), {}};
  if (task_.draws_during_pass())
    inputs.stream = OnDevice(RandomStream(options_.seed, step, micro_batch, "dropout"), device_);
  return inputs;
}

void TrainStep::ForwardAndBackward(size_t pass, const Batch& batch, const RandomInputs& random,
                                   int64_t samples_in_step, const std::function<void()>& before_backward) {
  const auto forward = [&] {
    const Autocast autocast(device_.type(), options_.precision);
    return task_.Train(batch, random);
  };
  const Task::Output output = forward();
  const double weight = MicroBatchWeight(batch.labels.size(0), samples_in_step);
  stats_.Add(pass, output, weight);
  before_backward();
  // Passes the weight as the gradient of the loss. The product is the same as with a weighted loss, and it
  // saves one operation each way.
  torch::autograd::backward({output.loss}, {state_.RootGradient(output.loss, weight)});
}

void TrainStep::Compute(int64_t step, int rank, int world_size, const std::vector<SyncRound>& passes) {
  Reach(Fault::At::kForward, step);
  const MicroBatchRange own = MicroBatchesOf(source_.micro_batches(), rank, world_size);
  source_.Expect(step, own.begin, own.end);
  if (ComputeCaptured(step, passes)) return;
  // A member without micro-batches also votes.
  if (passes.empty()) AttachStepRecord();
  for (size_t i = 0; i < passes.size(); ++i) {
    const TimePoint began = MonotonicNow();
    const Batch batch = BatchOf(step, passes[i].micro_batches);
    data_ += MonotonicNow() - began;
    MT_CHECK(batch.gathered.count == batch.labels.size(0))
        << "a batch of " << batch.labels.size(0) << " samples, " << batch.gathered.count << " gathered";
    stats_.AddGathered(batch.gathered);
    LookAhead(step, passes, i);
    if (sync_) sync_->SetRound(passes[i].members);
    ForwardAndBackward(i, batch, RandomInputsOf(step, passes[i].micro_batches.begin, batch.labels.size(0)),
                       source_.SamplesInStep(step), [&] {
                         if (i + 1 < passes.size()) return;
                         Reach(Fault::At::kBackward, step);
                         AttachStepRecord();
                         data_parallel_.LastRound();
                       });
    data_parallel_.EndPass();
  }
}

/// Computes the step by a capture, or returns false if it runs in the ordinary way. The sums over the workers
/// come after the replay: a capture contains no communicator, so aborting one does not affect it.
bool TrainStep::ComputeCaptured(int64_t step, const std::vector<SyncRound>& passes) {
  if (!captured_passes_) return false;
  WorkShape shape{{}, source_.SamplesInStep(step)};
  for (const SyncRound& pass : passes)
    shape.samples.push_back(source_.SamplesInMicroBatch(step, pass.micro_batches.begin));
  const CapturePlan::Action action = captured_passes_->Next(shape);
  if (action == CapturePlan::Action::kEager) return false;
  std::vector<PassInputs> inputs;
  for (size_t i = 0; i < passes.size(); ++i) {
    const int64_t micro_batch = passes[i].micro_batches.begin;
    const TimePoint began = MonotonicNow();
    const BatchInputs batch = source_.Inputs(step, micro_batch);
    data_ += MonotonicNow() - began;
    stats_.AddGathered(batch.gathered);
    inputs.push_back({batch.tensors, RandomInputsOf(step, micro_batch, shape.samples[i])});
  }
  Reach(Fault::At::kBackward, step);
  captured_passes_->Run(action, inputs,
                        [this, n = shape.samples_in_step](const std::vector<PassInputs>& own) {
                          for (size_t i = 0; i < own.size(); ++i)
                            ForwardAndBackward(i, source_.Compose(own[i].batch), own[i].random, n, [] {});
                        });
  AttachStepRecord();
  LookAhead(step, passes, passes.size() - 1);
  return true;
}

/// Attaches the record to the last bucket, after the last forward pass, if records are sent with the sums.
void TrainStep::AttachStepRecord() {
  if (data_parallel_.piggybacks_record()) data_parallel_.SetNote(Encode(stats_.Own()));
}

/// Sums the records after the sums over the workers. On a device this exchange commits the step, because an
/// aborted NCCL can leave garbage in other workers' sums. Each worker enters it only after its own sums have
/// ended and its device group is intact, and applies the step only if all have entered. On the CPU a sum that
/// has ended is complete, and its last phase has brought the records.
absl::StatusOr<StepSums> TrainStep::SumRecords(int64_t step) {
  const at::Tensor gradient_sums = data_parallel_.Sums();
  if (data_parallel_.piggybacks_record()) {
    StepSums sum = SumUp(data_parallel_.notes());
    sum.overflowed =
        data_parallel_.GradientsAreFinite(gradient_sums) ? 0 : 1;  // the same on all members, like the sums
    Reach(Fault::At::kRead, step);
    return sum;
  }
  // The only place of a step where the thread waits for the device.
  const at::Tensor read = at::cat({stats_.sums(), gradient_sums}).cpu();
  StepSums own = stats_.Own(read);
  const at::Tensor read_sums = read.narrow(0, StepStats::kSums, gradient_sums.numel());
  own.overflowed = data_parallel_.GradientsAreFinite(read_sums) ? 0 : 1;
  Reach(Fault::At::kRead, step);
  MT_ASSIGN_OR_RETURN(const Records records, Exchange(step, own, read_sums));
  return SumUp(records);
}

/// Exchanges records and compares refused sums. `gradient_sums`: as they have been read.
absl::StatusOr<TrainStep::Records> TrainStep::Exchange(int64_t step, const StepSums& own,
                                                       const at::Tensor& gradient_sums) {
  const collectives::ProcessGroup& group = data_parallel_.group();
  absl::StatusOr<Records> records =
      group ? options_.exchange(group, Encode(own)) : absl::StatusOr<Records>(Records{Encode(own)});
  if (options_.refused == nullptr) return records;
  const double* const sums = gradient_sums.const_data_ptr<double>();
  const double total = std::accumulate(sums, sums + gradient_sums.numel(), 0.0);
  if (!records.ok()) {
    options_.refused->Refuse(step, total);
  } else if (const std::string other = options_.refused->Settle(step, total); !other.empty()) {
    log::Info(other);
  }
  return records;
}

StepSums TrainStep::SumUp(const Records& records) {
  last_times_ = LastTimes(records);
  return SumOf(records);
}

void TrainStep::CountTimes(TimePoint began, Duration waited) {
  own_times_ = {.compute = ToSeconds(MonotonicNow() - began - waited - data_),
                .wait = ToSeconds(waited),
                .data = ToSeconds(data_)};
}

absl::StatusOr<StepSums> TrainStep::FinishSums(int64_t step) {
  const std::string noun = absl::StrCat("step ", step);
  MT_RETURN_IF_ERROR(Annotate(data_parallel_.FinishStep(), noun));
  absl::StatusOr<StepSums> record = absl::UnknownError("no record");
  MT_RETURN_IF_ERROR(TorchStatus(noun, [&] { record = SumRecords(step); }));
  return record;
}

void TrainStep::Update(const std::function<void()>& update) {
  const CapturePlan::Action action =
      captured_update_ ? captured_update_->Next({{1}, 1}) : CapturePlan::Action::kEager;
  if (action == CapturePlan::Action::kEager) {
    update();
  } else {
    captured_update_->Run(action, {}, [update](const std::vector<PassInputs>&) { update(); });
  }
}

absl::StatusOr<StepResult> TrainStep::Run(int64_t step, int rank, int world_size, double learning_rate,
                                          StepVotes votes) {
  const TimePoint began = MonotonicNow();
  data_ = {};
  data_parallel_.BeginStep(data_parallel_.sums_in_tree() ? Filled(step) : 0);
  state_.BeginStep();
  stats_.Begin(votes, own_times_);
  MT_RETURN_IF_ERROR(TorchStatus(absl::StrCat("step ", step), [&] {
    const std::vector<SyncRound> passes = Passes(step, rank, world_size);
    first_micro_batches_.clear();
    for (const SyncRound& pass : passes) first_micro_batches_.push_back(pass.micro_batches.begin);
    Compute(step, rank, world_size, passes);
  }));
  Reach(Fault::At::kAllReduce, step);
  const TimePoint computed = MonotonicNow();
  MT_ASSIGN_OR_RETURN(const StepSums record, FinishSums(step));
  Duration waited = MonotonicNow() - computed;
  const bool finite = std::isfinite(record.loss.value()) && record.overflowed == 0;
  if (!state_.scales_loss()) MT_RETURN_IF_ERROR(CheckFinite(step, record));
  // Asked before the update, which is a separate capture if steps are captured.
  const TimePoint summed = MonotonicNow();
  if (options_.may_commit) MT_RETURN_IF_ERROR(options_.may_commit());
  waited += MonotonicNow() - summed;
  bool applied = false;
  MT_RETURN_IF_ERROR(TorchStatus(absl::StrCat("update of step ", step), [&] {
    if (!data_parallel_.gradients_stay()) state_.BindGradients(data_parallel_.gradients());
    applied = state_.Apply(learning_rate, finite, [this](const auto& update) { Update(update); });
  }));
  Reach(Fault::At::kApply, step);
  skipped_in_a_row_ = applied ? 0 : skipped_in_a_row_ + 1;
  if (skipped_in_a_row_ > kMaxSkippedInARow) {
    return absl::OutOfRangeError(
        absl::StrCat("step ", step, ": gradients are not finite at any loss scale for ", skipped_in_a_row_,
                     " steps in a row. A lower learning_rate, a warm-up or --amp off usually helps"));
  }
  CountTimes(began, waited);
  return StepResult{.loss = record.loss.value(),
                    .correct = record.correct,
                    .samples = source_.SamplesInStep(step),
                    .skipped = !applied,
                    .leaving = static_cast<int>(record.leaving),
                    .regrouping = static_cast<int>(record.regrouping),
                    .gathered = record.gathered,
                    .times = own_times_,
                    .last_times = std::move(last_times_)};
}

absl::Status TrainStep::CheckFinite(int64_t step, const StepSums& record) const {
  const double loss = record.loss.value();
  if (std::isfinite(loss) && record.overflowed == 0) return absl::OkStatus();
  constexpr char kHelp[] =
      "the weights are those before the step. A lower learning_rate or a warm-up usually helps";
  if (std::isfinite(loss)) {
    return absl::OutOfRangeError(absl::StrCat("the gradients of step ", step,
                                              " are not finite although its loss is ", loss, "; ", kHelp));
  }
  std::vector<int64_t> bad;
  for (const size_t pass : stats_.NotFinite()) bad.push_back(first_micro_batches_[pass]);
  const std::string where = bad.empty() ? "in another worker's micro-batches"
                                        : absl::StrCat("in micro-batch ", absl::StrJoin(bad, ", "));
  return absl::OutOfRangeError(absl::StrCat(
      "the loss of step ", step, " is ", std::isnan(loss) ? "nan" : "infinite", " (", where, "); ", kHelp));
}

}  // namespace mtrun::trainers
