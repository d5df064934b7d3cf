#include "trainers/engine/train_loop.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainers/engine/agreement.h"
#include "trainers/engine/drain.h"
#include "trainers/engine/regroup.h"
#include "trainers/engine/torch_status.h"

namespace mtrun::engine {
namespace {

constexpr Duration kTellAgentEvery = std::chrono::seconds(1);
/// A dead keeper's metrics lack at most what it had not flushed: a second of steps, or 256 KiB of lines.
constexpr size_t kRecentSteps = 4096;

int64_t StepsOfRun(const TrainOptions& options, int64_t steps_per_epoch) {
  const int64_t all = options.epochs * steps_per_epoch;
  return options.max_steps > 0 ? std::min(all, options.max_steps) : all;
}

Learner::Options LearnerOptions(const TrainOptions& options, Precision precision) {
  Learner::Options out{.optimizer = options.optimizer,
                       .clip_norm = options.clip_norm,
                       .ema_decay = options.ema_decay,
                       .loss_scaling = {}};
  if (precision == Precision::kFp16) out.loss_scaling.emplace();
  return out;
}

Schedule ScheduleOf(const TrainOptions& options, int64_t steps_per_epoch) {
  Schedule schedule = options.schedule;
  schedule.steps = StepsOfRun(options, steps_per_epoch);
  return schedule;
}

}  // namespace

TrainLoop::Crew::Crew(const Inputs& in, DatasetShards& source, Learner& learner,
                      const collectives::ProcessGroup& group)
    : data_parallel(learner.trained(), group, StepRunner::kStats),
      runner(in.task, source, data_parallel, learner,
             {.seed = in.options.seed,
              .precision = in.precision,
              .sync_shards = in.options.sync_shards,
              .faults = in.faults}) {}

TrainLoop::TrainLoop(const Inputs& inputs, Team& team, ProgressLine& progress, TimePoint start)
    : in_(inputs),
      team_(team),
      progress_(progress),
      start_(start),
      source_(inputs.train, inputs.options, inputs.batch),
      test_batches_(inputs.test, inputs.batch),
      learner_(inputs.task.module(), LearnerOptions(inputs.options, inputs.precision)),
      schedule_(ScheduleOf(inputs.options, source_.steps_per_epoch())),
      pacer_(progress.terminal(), inputs.options.log_every, MonotonicNow()),
      carried_(inputs.identity, learner_),
      saved_(MonotonicNow()) {
  report_.program = inputs.program;
  if (inputs.task.classes() > 0) report_.class_names = inputs.test.class_names();
  report_.global_batch = inputs.options.plan.global_batch;
  report_.micro_batch = inputs.options.plan.micro_batch;
}

absl::StatusOr<Outcome> TrainLoop::Run() {
  while (true) {
    const absl::Status status = RunGeneration();
    if (status.ok()) break;
    if (!team_.elastic() || !MeansRegroup(status)) return status;
    broke_ = MonotonicNow();
    log::Info("regrouping: ", std::string(status.message()));
    // What the old group lent goes first: its memory, and the hooks that write into it.
    crew_.reset();
    const absl::Status regrouped = team_.Regroup(status);
    if (regrouped.code() == absl::StatusCode::kCancelled) {
      MT_RETURN_IF_ERROR(StopWhileWaiting(std::string(regrouped.message())));
      break;
    }
    MT_RETURN_IF_ERROR(regrouped);
  }
  outcome_.report = report_;
  return outcome_;
}

absl::Status TrainLoop::RunGeneration() {
  MT_RETURN_IF_ERROR(Enter());
  while (outcome_.complete && (steps() < schedule_.steps || EvaluationIsDue())) MT_RETURN_IF_ERROR(Turn());
  return outcome_.complete ? FinishRun() : absl::OkStatus();
}

absl::Status TrainLoop::Turn() {
  // A worker alone has no group that would break.
  if (team_.generation_is_over()) return absl::UnavailableError("this generation is over");
  return EvaluationIsDue() ? FinishEpoch() : Step();
}

// ---- the beginning of a generation

absl::Status TrainLoop::Enter() {
  const Assignment& who = team_.assignment();
  const bool had_run = carried_.exists();
  if (folder_) MT_RETURN_IF_ERROR(folder_->Flush());
  MT_RETURN_IF_ERROR(CheckMembersAgree());
  MT_ASSIGN_OR_RETURN(const CarriedRun::Begun begun,
                      carried_.Enter(team_, in_.options.model_folder, in_.options.resume));
  if (!had_run) RestoreReport();
  progress_.SetQuiet(who.rank != 0);
  report_.world_size = who.world_size;
  report_.nodes = who.nodes;
  crew_.emplace(in_, source_, learner_, team_.group());
  in_.task.module().train();
  if (who.rank == begun.keeper) {
    MT_RETURN_IF_ERROR(OpenFolder(begun.fresh));
  } else {
    folder_.reset();
  }
  if (!begun.resumed.empty()) {
    progress_.Print(absl::StrCat("resumed from ", begun.resumed, " at step ", steps()));
  } else if (!begun.fresh) {
    progress_.Print(absl::StrCat("going on with ", who.world_size,
                                 who.world_size == 1 ? " worker" : " workers", " at step ", steps()));
  }
  entered_ = shown_ = MonotonicNow();
  shown_samples_ = carried_.progress().samples;
  return absl::OkStatus();
}

/// Behind the first step of a new membership.
absl::Status TrainLoop::ReportRegroup() {
  if (!folder_ || !broke_) return absl::OkStatus();
  const TimePoint broke = *std::exchange(broke_, std::nullopt);
  return folder_->Record(RegroupRecord{.generation = carried_.generation(),
                                       .world = team_.assignment().world_size,
                                       .steps = steps(),
                                       .assign = ToSeconds(team_.assigned_at() - broke),
                                       .connect = ToSeconds(team_.connected_at() - team_.assigned_at()),
                                       .state = ToSeconds(entered_ - team_.connected_at()),
                                       .first_step = ToSeconds(MonotonicNow() - entered_)});
}

absl::Status TrainLoop::CheckMembersAgree() const {
  std::vector<std::pair<std::string, std::string>> items(in_.identity.begin(), in_.identity.end());
  const absl::Status same = CheckAgreement(team_.group(), items);
  // It is the newcomer that does not fit: it says so and goes, and the run goes on without it.
  if (absl::IsFailedPrecondition(same) && carried_.exists()) return absl::UnavailableError(same.message());
  return same;
}

/// After taking a run over from a checkpoint or another member.
void TrainLoop::RestoreReport() {
  const RunProgress& progress = carried_.progress();
  for (const EvalRecord& record : progress.history) report_.Add(record);
  if (!progress.confusion.empty()) report_.matrix = ConfusionMatrix(progress.confusion);
  seconds_before_ = progress.seconds;
  samples_before_ = progress.samples;
}

absl::Status TrainLoop::OpenFolder(bool fresh) {
  if (fresh && !folder_) MT_RETURN_IF_ERROR(MoveAside(in_.options.model_folder));
  if (folder_ && folder_->next_step() == steps()) return absl::OkStatus();
  folder_.reset();
  const datasets::BatchPlan& plan = in_.options.plan;
  MT_ASSIGN_OR_RETURN(folder_, RunFolder::Open({.path = in_.options.model_folder,
                                                .settings = in_.settings,
                                                .ledger = {.run = carried_.run(),
                                                           .seed = in_.options.seed,
                                                           .size = in_.train.size(),
                                                           .global_batch = plan.global_batch,
                                                           .micro_batch = plan.micro_batch,
                                                           .shuffle = in_.options.shuffle,
                                                           .data = in_.train.digest()},
                                                .keep_checkpoints = in_.options.keep_checkpoints},
                                               steps(), carried_.generation()));
  for (size_t i = 0; i < recent_.size(); ++i) {
    if (recent_[i].step < folder_->next_step() || recent_[i].step >= steps()) continue;
    MT_RETURN_IF_ERROR(folder_->Record(recent_[i], recent_ledger_[i], MonotonicNow()));
  }
  return absl::OkStatus();
}

// ---- a step

bool TrainLoop::EvaluationIsDue() const {
  const checkpoints::Position& at = carried_.position();
  if (at.steps == 0 || at.evaluated) return false;
  return at.steps % source_.steps_per_epoch() == 0 || at.steps >= schedule_.steps;
}

absl::Status TrainLoop::Step() {
  const Assignment& who = team_.assignment();
  const TimePoint began = MonotonicNow();
  const double learning_rate = LearningRate(schedule_, steps());
  const bool wish = team_.wants_drain();
  MT_ASSIGN_OR_RETURN(const StepResult result,
                      crew_->runner.Run(steps(), who.rank, who.world_size, learning_rate, wish));
  const TimePoint now = MonotonicNow();
  EpochSums& sums = carried_.progress().sums;
  if (!result.skipped) {
    sums.loss += result.loss * static_cast<double>(result.samples);
    sums.correct += result.correct;
    sums.samples += result.samples;
  }
  sums.seconds += ToSeconds(now - began);
  carried_.progress().samples += result.samples;
  MT_RETURN_IF_ERROR(Keep(result, learning_rate, began, now));
  if (broke_) MT_RETURN_IF_ERROR(ReportRegroup());
  if (result.leaving > 0) return Stop(result.leaving, wish);
  return SaveIfDue(/*epoch_ended=*/false);
}

/// Counts the step and records it.
absl::Status TrainLoop::Keep(const StepResult& result, double learning_rate, TimePoint began, TimePoint now) {
  const int64_t step = steps();
  const StepRecord record{.step = step,
                          .epoch = epoch() + 1,
                          .loss = result.loss,
                          .learning_rate = learning_rate,
                          .samples = result.samples,
                          .seconds = ToSeconds(now - began),
                          .skipped = result.skipped};
  const checkpoints::LedgerStep ledger{.step = step,
                                       .epoch = epoch(),
                                       .generation = carried_.generation(),
                                       .world = team_.assignment().world_size,
                                       .ids = source_.DigestOfStep(step),
                                       .loss = result.loss,
                                       .skipped = result.skipped};
  carried_.FinishStep();
  if (team_.elastic()) {
    recent_.push_back(record);
    recent_ledger_.push_back(ledger);
    if (recent_.size() > kRecentSteps) {
      recent_.pop_front();
      recent_ledger_.pop_front();
    }
    if (now - told_ >= kTellAgentEvery) {
      told_ = now;
      team_.ReportProgress(record.epoch, steps(), carried_.progress().samples);
    }
  }
  if (team_.assignment().rank == 0 && pacer_.Due(steps(), now)) ShowProgress(result, learning_rate, now);
  if (!folder_) return absl::OkStatus();
  const int64_t every = in_.task.picture_every();
  if (every > 0 && steps() % every == 0) MT_RETURN_IF_ERROR(DrawPicture());
  return folder_->Record(record, ledger, now);
}

void TrainLoop::ShowProgress(const StepResult& result, double learning_rate, TimePoint now) {
  const int64_t samples = carried_.progress().samples;
  const double speed = static_cast<double>(samples - shown_samples_) / ToSeconds(now - shown_);
  shown_ = now;
  shown_samples_ = samples;
  const double samples_per_step = static_cast<double>(samples) / static_cast<double>(steps());
  progress_.Show(ToText(ProgressState{
      .epoch = (steps() - 1) / source_.steps_per_epoch() + 1,
      .epochs = in_.options.epochs,
      .step = steps(),
      .steps = schedule_.steps,
      .loss = result.loss,
      .learning_rate = learning_rate,
      .images_per_second = speed,
      .seconds_left = static_cast<double>(schedule_.steps - steps()) * samples_per_step / speed,
  }));
}

void TrainLoop::Reach(Fault::At at) {
  if (in_.faults != nullptr) in_.faults->Reach(at, team_.assignment().rank, steps());
}

// ---- checkpoints

absl::Status TrainLoop::SaveIfDue(bool epoch_ended) {
  if (!folder_) return absl::OkStatus();
  const TrainOptions& rules = in_.options;
  const int64_t each = source_.steps_per_epoch();
  const bool by_epoch = epoch_ended && rules.checkpoint_epochs > 0 &&
                        (steps() / each) % rules.checkpoint_epochs == 0 && steps() % each == 0;
  const bool by_step = !epoch_ended && rules.checkpoint_steps > 0 && steps() % rules.checkpoint_steps == 0 &&
                       !EvaluationIsDue();
  const bool by_time = rules.checkpoint_seconds > 0 && !EvaluationIsDue() &&
                       MonotonicNow() - saved_ >= FromSeconds(rules.checkpoint_seconds);
  return by_epoch || by_step || by_time ? Save() : absl::OkStatus();
}

absl::Status TrainLoop::Save() {
  saved_ = MonotonicNow();
  carried_.progress().seconds = seconds_before_ + ToSeconds(saved_ - start_);
  // A run that goes on from this checkpoint finds the records of the steps before it.
  MT_RETURN_IF_ERROR(folder_->Flush());
  MT_ASSIGN_OR_RETURN(checkpoints::Snapshot snapshot, carried_.TakeSnapshot());
  const std::vector<EvalRecord>& history = report_.history;
  const auto best = std::find_if(history.begin(), history.end(), [&](const EvalRecord& record) {
    return record.epoch == report_.best_epoch;
  });
  folder_->Save(std::move(snapshot), best == history.end() ? std::nullopt : std::optional(best->steps));
  Reach(Fault::At::kSave);
  return absl::OkStatus();
}

// ---- the end of an epoch, of the run, of this worker's part in it

absl::StatusOr<Evaluation> TrainLoop::EvaluateNow() {
  const Assignment& who = team_.assignment();
  const int64_t wanted = in_.options.eval_images;
  const int64_t size = wanted > 0 ? std::min(wanted, in_.test.size()) : in_.test.size();
  Reach(Fault::At::kEvaluate);
  const Learner::Averaged averaged(learner_);
  return Evaluate(in_.task, test_batches_, size, who.rank, who.world_size, team_.group());
}

absl::Status TrainLoop::DrawPicture() {
  const std::string path = absl::StrFormat("%s/samples_%07d.png", in_.options.model_folder, steps());
  const Learner::Averaged averaged(learner_);
  absl::Status drawn;
  MT_RETURN_IF_ERROR(TorchStatus("samples", [&] {
    torch::NoGradGuard no_grad;
    in_.task.module().eval();
    drawn = in_.task.DrawPicture(path);
    in_.task.module().train();
  }));
  return drawn;
}

absl::Status TrainLoop::FinishEpoch() {
  MT_ASSIGN_OR_RETURN(const Evaluation evaluation, EvaluateNow());
  RunProgress& progress = carried_.progress();
  const EpochSums sums = progress.sums;
  const auto seen = static_cast<double>(std::max<int64_t>(sums.samples, 1));
  const EvalRecord record{.steps = steps(),
                          .epoch = (steps() - 1) / source_.steps_per_epoch() + 1,
                          .train_loss = sums.loss / seen,
                          .train_accuracy = static_cast<double>(sums.correct) / seen,
                          .test_loss = evaluation.loss,
                          .test_accuracy = evaluation.matrix.Accuracy(),
                          .seconds = sums.seconds,
                          .classified = in_.task.classes() > 0};
  const bool new_best = report_.Add(record);
  report_.matrix = evaluation.matrix;
  progress.history.push_back(record);
  progress.confusion = evaluation.matrix.counts();
  progress.sums = {};
  carried_.FinishEvaluation();
  progress_.Print(EpochText(record, in_.options.epochs, new_best));
  // Evaluation is not training: the next progress line measures from here.
  shown_ = MonotonicNow();
  shown_samples_ = progress.samples;
  if (!folder_) return absl::OkStatus();
  MT_RETURN_IF_ERROR(folder_->Record(record));
  return SaveIfDue(/*epoch_ended=*/true);
}

absl::Status TrainLoop::FinishRun() {
  report_.steps = steps();
  report_.seconds = seconds_before_ + ToSeconds(MonotonicNow() - start_);
  report_.images_per_second = static_cast<double>(carried_.progress().samples) / report_.training_seconds;
  progress_.Print("\n" + ReportText(report_));
  if (folder_) {
    MT_RETURN_IF_ERROR(Save());
    // Its failure has been told; the weights by themselves may still fit.
    folder_->WaitForSaves().IgnoreError();
    MT_RETURN_IF_ERROR(in_.finish(learner_, report_));
  }
  // Nobody is done before everything is on the disk: until then a successor of rank 0 would have to write it.
  MT_RETURN_IF_ERROR(AnyMember(team_.group(), false).status());
  progress_.Print(
      absl::StrCat("\nweights, metrics, checkpoints and this report are in ", in_.options.model_folder));
  team_.ReportDone(steps());
  return absl::OkStatus();
}

/// Behind a step whose reduction said that `leaving` members want to go, this one among them or not.
absl::Status TrainLoop::Stop(int leaving, bool wish) {
  const int world = team_.assignment().world_size;
  if (leaving < world && !wish) {
    return absl::UnavailableError(
        absl::StrCat(leaving, " of ", world, " workers leave behind step ", steps() - 1));
  }
  outcome_.complete = false;
  const std::string why = team_.drain_wish();
  if (leaving < world) {
    outcome_.stopped =
        absl::StrCat(why, ": left behind step ", steps() - 1, ", the other workers go on without this one");
    team_.ReportLeaving(why);
    return absl::OkStatus();
  }
  if (folder_) {
    MT_RETURN_IF_ERROR(Save());
    MT_RETURN_IF_ERROR(folder_->WaitForSaves());
  }
  MT_RETURN_IF_ERROR(AnyMember(team_.group(), false).status());
  StopRun(why);
  return absl::OkStatus();
}

/// The whole run stops here, and its state is on the disk.
void TrainLoop::StopRun(const std::string& why) {
  outcome_.complete = false;
  outcome_.signal = DrainSignal() != 0 ? DrainSignal() : SIGTERM;
  outcome_.stopped = absl::StrCat(why, ": stopped at step ", steps(), " of ", schedule_.steps,
                                  "; the same command goes on from ", in_.options.model_folder);
  team_.ReportLeaving(why);
}

/// This worker is to go while it waits for others: what it carries is the newest there is here.
absl::Status TrainLoop::StopWhileWaiting(const std::string& why) {
  if (carried_.exists() && team_.assignment().local_rank == 0) {
    MT_RETURN_IF_ERROR(OpenFolder(/*fresh=*/false));
    MT_RETURN_IF_ERROR(Save());
    MT_RETURN_IF_ERROR(folder_->WaitForSaves());
  }
  StopRun(why);
  return absl::OkStatus();
}

}  // namespace mtrun::engine
