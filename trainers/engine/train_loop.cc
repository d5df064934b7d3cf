#include "trainers/engine/train_loop.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainers/checkpoints/keeper_mark.h"
#include "trainers/engine/agreement.h"
#include "trainers/engine/regroup.h"

namespace mtrun::engine {
namespace {

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

/// Making a batch in host memory and computing take different processors where there is a GPU.
std::unique_ptr<PrefetchedShards> MakePrefetched(ShardSource& source, const BatchOptions& batch) {
  if (!batch.device.is_cuda() || batch.resident) return nullptr;
  return std::make_unique<PrefetchedShards>(source, batch.device);
}

Schedule ScheduleOf(const TrainOptions& options, int64_t steps_per_epoch) {
  Schedule schedule = options.schedule;
  schedule.steps = StepsOfRun(options, steps_per_epoch);
  return schedule;
}

}  // namespace

TrainLoop::Crew::Crew(const Inputs& in, ShardSource& source, Learner& learner,
                      const collectives::ProcessGroup& group)
    : data_parallel(learner.trained(), group, StepRunner::kStats),
      runner(in.task, source, data_parallel, learner,
             {.seed = in.options.seed,
              .precision = in.precision,
              .sync_shards = in.options.sync_shards,
              .faults = in.faults,
              .graphs = in.graphs}) {}

TrainLoop::TrainLoop(const Inputs& inputs, Team& team, ProgressLine& progress, TimePoint start)
    : in_(inputs),
      team_(team),
      progress_(progress),
      start_(start),
      source_(inputs.train, inputs.options, inputs.batch),
      prefetched_(MakePrefetched(source_, inputs.batch)),
      test_batches_(MakeImageBatches(inputs.test, inputs.batch)),
      learner_(inputs.task.module(), LearnerOptions(inputs.options, inputs.precision)),
      schedule_(ScheduleOf(inputs.options, source_.steps_per_epoch())),
      pacer_(progress.terminal(), inputs.options.log_every, MonotonicNow()),
      carried_(inputs.identity, learner_),
      report_(EmptyReport()),
      run_began_(start),
      saved_(MonotonicNow()) {}

RunReport TrainLoop::EmptyReport() const {
  RunReport report;
  report.program = in_.program;
  if (in_.task.classes() > 0) report.class_names = in_.test.class_names();
  report.global_batch = in_.options.plan.global_batch;
  report.micro_batch = in_.options.plan.micro_batch;
  return report;
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
  if (folder_) MT_RETURN_IF_ERROR(folder_->Flush());
  MT_RETURN_IF_ERROR(CheckMembersAgree());
  carried_.progress().seconds = SecondsOfRun();  // whoever takes the run over counts on from here
  MT_ASSIGN_OR_RETURN(const CarriedRun::Begun begun,
                      carried_.Enter(team_, in_.options.model_folder, in_.options.resume));
  if (begun.received || !begun.resumed.empty()) AdoptProgress(begun);
  progress_.SetQuiet(who.rank != 0);
  report_.world_size = who.world_size;
  report_.nodes = who.nodes;
  crew_.emplace(in_, prefetched_ ? *prefetched_ : static_cast<ShardSource&>(source_), learner_,
                team_.group());
  in_.task.module().train();
  if (who.rank == begun.keeper) {
    MT_RETURN_IF_ERROR(OpenFolder(begun.fresh));
  } else {
    folder_.reset();
  }
  if (who.nodes > 1) MT_RETURN_IF_ERROR(FindOwnFolder(begun));
  if (begun.fresh || !begun.resumed.empty()) progress_.Print(in_.greeting);
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

/// After taking a run over from a checkpoint or another member: what this one knew of it counts no more.
void TrainLoop::AdoptProgress(const CarriedRun::Begun& begun) {
  const RunProgress& progress = carried_.progress();
  report_ = EmptyReport();
  for (const EvalRecord& record : progress.history) report_.Add(record);
  if (!progress.confusion.empty()) report_.matrix = ConfusionMatrix(progress.confusion);
  recent_.clear();
  // A checkpoint's run stood still until this process began, a member's did not.
  const TimePoint now = begun.resumed.empty() ? MonotonicNow() : start_;
  run_began_ = begun.fresh ? start_ : now - FromSeconds(progress.seconds);
}

absl::Status TrainLoop::OpenFolder(bool fresh) {
  if (fresh && !folder_) MT_RETURN_IF_ERROR(MoveAside(in_.options.model_folder));
  if (folder_ && folder_->next_step() == steps()) return absl::OkStatus();
  folder_.reset();
  copies_.reset();
  const datasets::BatchPlan& plan = in_.options.plan;
  MT_ASSIGN_OR_RETURN(folder_, RunFolder::Open({.checkpoints = CheckpointOptions(),
                                                .settings = in_.settings,
                                                .ledger = {.run = carried_.run(),
                                                           .seed = in_.options.seed,
                                                           .size = in_.train.size(),
                                                           .global_batch = plan.global_batch,
                                                           .micro_batch = plan.micro_batch,
                                                           .shuffle = in_.options.shuffle,
                                                           .data = in_.train.digest()}},
                                               steps()));
  for (const Finished& step : recent_) {
    if (step.record.step >= folder_->next_step()) MT_RETURN_IF_ERROR(Write(step, MonotonicNow()));
  }
  return absl::OkStatus();
}

CheckpointWriter::Options TrainLoop::CheckpointOptions() const {
  return {.path = in_.options.model_folder,
          .generation = carried_.generation(),
          .keep_last = in_.options.keep_checkpoints,
          .grace = in_.grace,
          .last_seconds = carried_.progress().saving,
          .first = nullptr};
}

/// Collective. Which nodes have a folder of their own shows a mark that the keeper leaves in its own.
absl::Status TrainLoop::FindOwnFolder(const CarriedRun::Begun& begun) {
  const Assignment& who = team_.assignment();
  const std::string& path = in_.options.model_folder;
  const checkpoints::KeeperMark mark{carried_.run(), carried_.generation()};
  if (folder_) MT_RETURN_IF_ERROR(checkpoints::WriteKeeperMark(path, mark));
  MT_RETURN_IF_ERROR(AnyMember(team_.group(), false).status());
  if (folder_ || !who.first_on_node || checkpoints::HasKeeperMark(path, mark)) {
    copies_.reset();
    return absl::OkStatus();
  }
  if (copies_) return absl::OkStatus();
  const absl::Status opened = OpenCopies(begun.fresh);
  if (opened.ok()) {
    log::Info("this node's ", path, " is not the folder of rank ", begun.keeper,
              ", which keeps the run's files: checkpoints are saved in both");
  } else {
    log::Warning("no checkpoints are kept on this node: ", std::string(opened.message()));
  }
  return absl::OkStatus();
}

absl::Status TrainLoop::OpenCopies(bool fresh) {
  const std::string& path = in_.options.model_folder;
  MT_RETURN_IF_ERROR(CheckRunFolder(path));
  if (fresh) MT_RETURN_IF_ERROR(MoveAside(path));
  RemoveTornSaves(path);
  copies_ = std::make_unique<CheckpointWriter>(CheckpointOptions());
  return absl::OkStatus();
}

CheckpointWriter* TrainLoop::checkpoints() { return folder_ ? &folder_->checkpoints() : copies_.get(); }

// ---- a step

bool TrainLoop::EvaluationIsDue() const {
  const checkpoints::Position& at = carried_.position();
  if (at.steps == 0 || at.evaluated) return false;
  return at.steps % source_.steps_per_epoch() == 0 || at.steps >= schedule_.steps;
}

/// Without keeping a processor busy; a step that is torn is not waited for.
void TrainLoop::Pace(TimePoint began) const {
  while (MonotonicNow() - began < in_.pace && !team_.generation_is_over())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

absl::Status TrainLoop::Step() {
  const Assignment& who = team_.assignment();
  const TimePoint began = MonotonicNow();
  Pace(began);
  const double learning_rate = LearningRate(schedule_, steps());
  const bool wish = team_.wants_drain();
  absl::StatusOr<StepResult> ran = crew_->runner.Run(steps(), who.rank, who.world_size, learning_rate,
                                                     {.leave = wish, .regroup = team_.wants_regroup()});
  if (absl::IsOutOfRange(ran.status())) return NameLastCheckpoint(ran.status());
  MT_ASSIGN_OR_RETURN(const StepResult result, std::move(ran));
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
  MT_RETURN_IF_ERROR(SaveIfDue(/*epoch_ended=*/false));
  if (result.regrouping == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("another membership begins behind step ", steps() - 1));
}

/// Counts the step and records it.
absl::Status TrainLoop::Keep(const StepResult& result, double learning_rate, TimePoint began, TimePoint now) {
  const Finished step{.record = {.step = steps(),
                                 .epoch = epoch() + 1,
                                 .loss = result.loss,
                                 .learning_rate = learning_rate,
                                 .samples = result.samples,
                                 .seconds = ToSeconds(now - began),
                                 .skipped = result.skipped},
                      .generation = carried_.generation(),
                      .world = team_.assignment().world_size};
  carried_.FinishStep();
  if (team_.elastic()) {
    recent_.push_back(step);
    if (recent_.size() > kRecentSteps) recent_.pop_front();
    team_.ReportProgress(step.record.epoch, steps(), carried_.progress().samples);
  }
  if (team_.assignment().rank == 0 && pacer_.Due(steps(), now)) ShowProgress(result, learning_rate, now);
  if (!folder_) return absl::OkStatus();
  const int64_t every = in_.task.picture_every();
  if (every > 0 && steps() % every == 0) MT_RETURN_IF_ERROR(DrawPicture());
  return Write(step, now);
}

absl::Status TrainLoop::Write(const Finished& step, TimePoint now) {
  const StepRecord& record = step.record;
  return folder_->Record(record,
                         checkpoints::LedgerStep{.step = record.step,
                                                 .epoch = record.epoch - 1,
                                                 .generation = step.generation,
                                                 .world = step.world,
                                                 .ids = source_.DigestOfStep(record.step),
                                                 .loss = record.loss,
                                                 .skipped = record.skipped},
                         now);
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
  if (in_.faults != nullptr) in_.faults->Reach(at, steps());
}

}  // namespace mtrun::engine
