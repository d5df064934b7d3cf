#include "trainers/run/loop/train_loop.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/version.h"
#include "trainers/device/memory.h"
#include "trainers/device/pci_address.h"
#include "trainers/input/prefetched_source.h"
#include "trainers/run/loop/best_weights.h"
#include "trainers/run/records/flight_file.h"
#include "trainers/step/warm_up.h"

namespace mtrun::trainers {
namespace {

/// Makes the source of images between the run's source and its steps; null: none. With a GPU, batches are
/// prepared in host memory while the GPU computes.
std::unique_ptr<MicroBatchSource> MakePrefetched(MicroBatchSource& source, const TrainInputs& in) {
  if (in.step_source) return in.step_source(source);
  if (!in.batch.device.is_cuda() || in.batch.resident) return nullptr;
  return std::make_unique<PrefetchedSource>(source, in.batch.device);
}

std::unique_ptr<FrozenFeatures> MakeFeatures(const TrainInputs& in) {
  if (in.task.features() == 0) return nullptr;
  // Another version may read images in another way.
  std::string depends_on = absl::StrCat(Version(), "|", Commit(), "|", in.identity.machine, "|",
                                        static_cast<int>(in.precision), "|", in.test.digest());
  if (in.final_test != nullptr) absl::StrAppend(&depends_on, "|", in.final_test->digest());
  absl::StrAppend(&depends_on, "|", in.options.test_image_size(), "|", in.options.eval_part);
  for (const auto& part : {in.identity.run, in.identity.generation}) {
    for (const auto& [name, value] : part) absl::StrAppend(&depends_on, "|", name, "=", value);
  }
  return std::make_unique<FrozenFeatures>(in.task,
                                          FrozenFeatures::Options{.folder = in.options.model_folder,
                                                                  .depends_on = std::move(depends_on),
                                                                  .precision = in.precision,
                                                                  .micro_batch = in.options.plan.micro_batch,
                                                                  .dtype = in.batch.dtype,
                                                                  .device = in.batch.device});
}

/// Makes the batches of an evaluation. `features`: null if images are evaluated.
std::unique_ptr<ImageBatches> MakeTestBatches(const datasets::PackedSplit& split, const TrainInputs& in,
                                              FrozenFeatures* features, const std::string& name) {
  auto images = MakeImageBatches(split, in.test_batch.value_or(in.batch));
  return features == nullptr ? std::move(images)
                             : features->BatchesOver(std::move(images), split.size(), name);
}

/// Sleeps until `until`, for tests that need long steps and long evaluations (MTRUN_PACE). Returns at once if
/// the generation is over: an aborted step needs no delay.
void DelayForTest(const Membership& membership, TimePoint until) {
  while (MonotonicNow() < until && !membership.generation_is_over())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

}  // namespace

TrainLoop::TrainLoop(const TrainInputs& inputs, Membership& membership, ProgressLine& progress,
                     TimePoint start)
    : run_(inputs, membership, progress, start),
      entry_(run_),
      end_(run_),
      features_(MakeFeatures(inputs)),
      prefetched_(MakePrefetched(run_.source, inputs)),
      step_source_(features_ ? features_->SourceOver(run_.source, Images(), inputs.train.size()) : nullptr),
      test_batches_(MakeTestBatches(inputs.test, inputs, features_.get(), "test")),
      final_batches_(inputs.final_test != nullptr
                         ? MakeTestBatches(*inputs.final_test, inputs, features_.get(), "final")
                         : nullptr),
      data_wait_(inputs.arrival, inputs.data_wait, membership, run_.files, [this] { run_.StillHere(); }),
      watch_(run_.files, run_.state, inputs.options.clip_norm > 0, PciAddress(inputs.batch.device)),
      meter_(run_.length),
      pacer_(progress.terminal(), inputs.options.log_every, MonotonicNow()) {}

absl::Status TrainLoop::WarmUp() {
  const TrainInputs& in = run_.in;
  MT_RETURN_IF_ERROR(
      trainers::WarmUp(in.task, StepSource(), run_.state,
                       {.seed = in.options.seed, .precision = in.precision, .graphs = in.graphs}));
  if (in.arrival != nullptr) return absl::OkStatus();
  const int image_size = in.options.test_image_size();
  const int64_t one_batch = std::min(in.test.size(), EvaluationBatch(image_size, in.batch.device.is_cpu()));
  const EvaluationPart part{.size = one_batch, .precision = in.precision, .image_size = image_size};
  return Evaluate(in.task, *test_batches_, part, nullptr).status();
}

absl::StatusOr<Outcome> TrainLoop::Run() {
  while (true) {
    const absl::StatusOr<Outcome> outcome = RunGeneration();
    if (outcome.ok()) return outcome;
    MT_ASSIGN_OR_RETURN(const std::optional<Outcome> left, Continue(outcome.status()));
    if (left) return *left;
  }
}

// ---- generations

/// Runs one generation. Returns the outcome if this worker's part ends with it, or the error that ended it.
absl::StatusOr<Outcome> TrainLoop::RunGeneration() {
  MT_RETURN_IF_ERROR(Enter());
  while (true) {
    MT_ASSIGN_OR_RETURN(const std::optional<Outcome> outcome, RunOnce());
    if (outcome) return *outcome;
  }
}

absl::Status TrainLoop::Enter() {
  MT_ASSIGN_OR_RETURN(const RunReplica::Begun begun, entry_.Enter());
  generation_.emplace(run_, StepSource(), refused_, begun.writer);
  run_.in.task.module().train();
  if (features_) features_->Enter();
  MT_RETURN_IF_ERROR(data_wait_.Enter(run_.steps()));
  if (!begun.fresh && begun.resumed.empty()) MT_RETURN_IF_ERROR(KeepBest(/*of_others=*/true));
  StopIfStale();
  const TimePoint now = generation_->began = MonotonicNow();
  meter_.Restart(now, run_.replica.progress().samples);
  watch_.Enter(run_.membership.assignment(), run_.in.options.plan.micro_batches(), now);
  return absl::OkStatus();
}

/// Decides and performs one action. Returns the outcome if this worker's part is over.
absl::StatusOr<std::optional<Outcome>> TrainLoop::RunOnce() {
  const checkpoints::Position at = run_.replica.position();
  const Decision decision = run_.lifecycle.Next(at, run_.membership.generation_is_over(), MonotonicNow());
  switch (decision.action) {
    case Action::kStep:
      MT_RETURN_IF_ERROR(generation_->stuck_step.Run([this] { return Step(); }));
      return std::nullopt;
    case Action::kEvaluate:
      MT_RETURN_IF_ERROR(EndEpoch());
      return std::nullopt;
    case Action::kSave:
      MT_RETURN_IF_ERROR(run_.lease.Await(absl::StrCat("the checkpoint of step ", at.steps)));
      MT_RETURN_IF_ERROR(run_.Save());
      return std::nullopt;
    case Action::kRegroup:
      in_order_ = true;
      return absl::UnavailableError(Describe(decision, run_.lifecycle, at));
    case Action::kLeave:
      return end_.Leave(decision.cause);
    case Action::kFinish:
      return Finish();
  }
  return absl::InternalError("invalid decision");
}

absl::StatusOr<Outcome> TrainLoop::Finish() {
  RunEnd::Test test;
  if (final_batches_) test = [this] { return EvaluateOn(*final_batches_, *run_.in.final_test); };
  absl::StatusOr<Outcome> outcome = end_.Finish(generation_->writer, test);
  if (outcome.ok() && features_) features_->Remove();
  return outcome;
}

/// Continues after `ended` has ended the generation. Returns nullopt if the next one is to be entered, or the
/// outcome if this worker was told to leave while it waited for data or for others.
absl::StatusOr<std::optional<Outcome>> TrainLoop::Continue(const absl::Status& ended) {
  const Membership& membership = run_.membership;
  // Without a launcher no worker regroups: if the others left first, this one leaves too.
  if (!membership.elastic() && membership.wants_drain() && MeansRegroup(ended))
    return LeaveWhileWaiting(membership.drain_wish());
  if (absl::IsCancelled(ended)) return LeaveWhileWaiting(std::string(ended.message()));
  if (!std::exchange(in_order_, false)) {
    const Assignment& who = membership.assignment();
    WriteFlight(run_.in.options.model_folder, {.rank = who.rank,
                                               .world = who.world_size,
                                               .generation = run_.replica.generation(),
                                               .steps = run_.steps(),
                                               .why = std::string(ended.message())});
  }
  if (!membership.elastic() || !MeansRegroup(ended)) return ended;
  entry_.NoteEnd(std::string(ended.message()), MonotonicNow());
  // The launcher prints one line for all workers of a node.
  log::Debug("regrouping: ", std::string(ended.message()));
  return Regroup(ended);
}

absl::StatusOr<std::optional<Outcome>> TrainLoop::Regroup(const absl::Status& why) {
  // Release what the old group lent first: its memory, and the hooks that write into it.
  generation_.reset();
  const absl::Status regrouped = run_.membership.Regroup(why);
  if (absl::IsCancelled(regrouped)) return LeaveWhileWaiting(std::string(regrouped.message()));
  MT_RETURN_IF_ERROR(regrouped);
  return std::nullopt;
}

absl::StatusOr<std::optional<Outcome>> TrainLoop::LeaveWhileWaiting(const std::string& why) {
  const absl::StatusOr<Outcome> left = end_.LeaveWhileWaiting(why);
  if (absl::IsAborted(left.status())) return Regroup(left.status());  // the others wait for this worker
  return left;
}

// ---- steps

absl::Status TrainLoop::Step() {
  Membership& membership = run_.membership;
  const Assignment& who = membership.assignment();
  const int64_t step = run_.steps();
  const TimePoint began = MonotonicNow();
  DelayForTest(membership, began + run_.in.pace);
  MT_ASSIGN_OR_RETURN(const Duration waited, data_wait_.AwaitStep(step));
  const double learning_rate = LearningRate(run_.schedule, step);
  const StepVotes votes{.leave = membership.wants_drain(), .regroup = membership.wants_regroup()};
  absl::StatusOr<StepResult> result =
      generation_->runner.Run(step, who.rank, who.world_size, learning_rate, votes);
  if (absl::IsOutOfRange(result.status())) {
    // The numbers have diverged: name the checkpoint from which the run can restart.
    return absl::OutOfRangeError(absl::StrCat(result.status().message(), ". ", run_.files.LastCheckpoint()));
  }
  MT_RETURN_IF_ERROR(result.status());
  result->times.data += ToSeconds(waited);
  MT_RETURN_IF_ERROR(Account(*result, learning_rate, began));
  run_.lifecycle.Stepped({result->leaving, result->regrouping}, votes.leave);
  return entry_.RecordRegroup(generation_->began);
}

/// Counts, records and shows the step.
absl::Status TrainLoop::Account(const StepResult& result, double learning_rate, TimePoint began) {
  const TimePoint now = MonotonicNow();
  Membership& membership = run_.membership;
  RunProgress& progress = run_.replica.progress();
  EpochMeter::Add(result, ToSeconds(now - began), progress);
  FinishedStep step{.record = {.step = run_.steps(),
                               .epoch = run_.length.EpochOf(run_.steps() + 1),
                               .loss = result.loss,
                               .learning_rate = learning_rate,
                               .samples = result.samples,
                               .seconds = ToSeconds(now - began),
                               .skipped = result.skipped},
                    .generation = run_.replica.generation(),
                    .world = membership.assignment().world_size,
                    .gathered = result.gathered,
                    .times = result.times};
  if (run_.in.task.classes() > 0) step.correct = result.correct;
  watch_.Look(step, now);
  progress.last_step = step;
  run_.replica.FinishStep();
  const int64_t steps = run_.steps();
  membership.ReportProgress(step.record.epoch, steps, progress.samples);
  ReportTimes(step, result);
  const double smoothed = smoothed_.Add(result.loss);
  if (run_.progress.shows() && pacer_.Due(steps, now)) {
    ProgressState state = meter_.Show(steps, smoothed, learning_rate, progress, now);
    state.world = membership.assignment().world_size;
    state.memory = MemoryInUse(run_.in.batch.device);
    run_.progress.Show(state);
  }
  MT_RETURN_IF_ERROR(run_.files.Record(step, now));  // before anything that may wait for disk space
  const int64_t every = run_.in.task.picture_every();
  if (run_.files.writes() && every > 0 && steps % every == 0)
    MT_RETURN_IF_ERROR(run_.files.WithRoom([this] { return DrawPicture(); }));
  return watch_.Count(result, steps, now);
}

/// Tells users who watch.
void TrainLoop::ReportTimes(const FinishedStep& step, const StepResult& result) {
  const std::filesystem::path folder = run_.in.options.model_folder;
  channel::StepTimes times{.step = run_.steps(),
                           .data_seconds = result.times.data,
                           .exchange_seconds = result.times.wait,
                           .loss = result.loss,
                           .learning_rate = step.record.learning_rate,
                           .epoch = step.record.epoch,
                           .epochs = run_.in.options.epochs,
                           .total_steps = run_.length.steps,
                           .run = (folder / "").parent_path().filename()};
  if (step.correct && result.samples > 0)
    times.accuracy = static_cast<double>(*step.correct) / static_cast<double>(result.samples);
  run_.membership.ReportTimes(times);
}

absl::Status TrainLoop::DrawPicture() {
  const std::string path = absl::StrFormat("%s/samples_%07d.png", run_.in.options.model_folder, run_.steps());
  {
    const TrainState::Averaged averaged(run_.state);
    MT_RETURN_IF_ERROR(trainers::DrawPicture(run_.in.task, path));
  }
  run_.files.AddPicture("samples", run_.steps(), path);
  return absl::OkStatus();
}

// ---- evaluations

absl::Status TrainLoop::EndEpoch() {
  const TrainInputs& in = run_.in;
  MT_RETURN_IF_ERROR(run_.files.Flush());  // a member that gives it up may take over the files
  std::optional<TrainState::Averaged> averaged(std::in_place, run_.state);
  MT_ASSIGN_OR_RETURN(const Evaluation evaluation, EvaluateOn(*test_batches_, in.test));
  averaged.reset();
  MT_RETURN_IF_ERROR(run_.lease.Await(absl::StrCat("the evaluation of step ", run_.steps())));
  RunProgress& progress = run_.replica.progress();
  EvalRecord record = meter_.EndEpoch(run_.steps(), evaluation.loss, evaluation.matrix, in.task.classes() > 0,
                                      progress, evaluation.top5);
  record.validation = in.final_test != nullptr;
  progress.history.back() = record;
  run_.notable = evaluation.notable;
  run_.notable_after = run_.steps();
  run_.replica.FinishEvaluation();
  run_.lifecycle.Evaluated();
  const bool new_best = run_.Report().BestSteps() == run_.steps();
  run_.progress.Print(EpochText(record, in.options.epochs, new_best, run_.progress.columns().value_or(0)));
  MT_RETURN_IF_ERROR(run_.files.Record(record, evaluation.matrix));
  MT_RETURN_IF_ERROR(KeepBest());
  StopIfStale();
  meter_.Restart(MonotonicNow(), progress.samples);
  return absl::OkStatus();
}

/// Evaluates the current weights together with the other members. Is given up if this worker is to leave and
/// cannot wait for the end.
absl::StatusOr<Evaluation> TrainLoop::EvaluateOn(const ImageBatches& batches,
                                                 const datasets::PackedSplit& split) {
  const TrainInputs& in = run_.in;
  const Membership& membership = run_.membership;
  const Assignment& who = membership.assignment();
  const int64_t wanted = in.options.eval_images;
  const int64_t size = wanted > 0 ? std::min(wanted, split.size()) : split.size();
  MT_RETURN_IF_ERROR(data_wait_.AwaitImages(split, size, run_.steps()));
  run_.Reach(Fault::At::kEvaluate);
  const EvaluationPart part{.size = size,
                            .rank = who.rank,
                            .world_size = who.world_size,
                            .precision = in.precision,
                            .image_size = in.options.test_image_size()};
  TimePoint began = MonotonicNow();
  return Evaluate(in.task, batches, part, membership.group(), [&]() -> absl::Status {
    DelayForTest(membership, began + in.pace);
    run_.StillHere();
    began = MonotonicNow();
    if (!GivesEvaluationUp(membership.told_to_go_at(), in.grace, began)) return absl::OkStatus();
    in_order_ = true;
    const std::string why =
        absl::StrCat(membership.drain_wish(), ": the evaluation of step ", run_.steps(), " is given up");
    log::Info(why);
    return EndForLeaving(membership, why);
  });
}

/// Saves the weights if the last evaluation was the best. `of_others`: an earlier writer may have left before
/// they and their checkpoint were on the disk. If no step has followed, the members still hold them.
absl::Status TrainLoop::KeepBest(bool of_others) {
  const RunReport report = run_.Report();
  const std::string& folder = run_.in.options.model_folder;
  if (!run_.replica.position().evaluated || report.BestSteps() != run_.steps()) return absl::OkStatus();
  if (of_others) run_.lifecycle.Evaluated();  // so that a checkpoint is due if that epoch has one
  if (!run_.files.writes() || (of_others && HoldsBest(folder, run_.steps()))) return absl::OkStatus();
  return run_.files.WithRoom(
      [&] { return SaveBest(folder, run_.state, run_.steps(), report.best_epoch, run_.in.metadata); });
}

/// Ends the run here if no epoch was better for too long. All members know the same history, so all decide
/// alike.
void TrainLoop::StopIfStale() {
  const RunReport report = run_.Report();
  const int64_t timeout = run_.in.options.early_stopping_epochs;
  const checkpoints::Position& at = run_.replica.position();
  if (!at.evaluated || !report.IsStale(timeout) || at.steps >= run_.length.steps) return;
  run_.lifecycle.EndAt(at);
  run_.progress.Print(absl::StrCat("no epoch was better than epoch ", report.best_epoch, " for ", timeout,
                                   timeout == 1 ? " epoch" : " epochs", ": the run stops early"));
}

}  // namespace mtrun::trainers
