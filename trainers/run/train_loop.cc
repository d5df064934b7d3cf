#include "trainers/run/train_loop.h"

#include <algorithm>
#include <csignal>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainers/device/memory.h"
#include "trainers/device/pci_address.h"
#include "trainers/membership/drain.h"
#include "trainers/run/agreement.h"
#include "trainers/run/best_weights.h"
#include "trainers/run/flight_file.h"
#include "trainers/run/pace.h"
#include "trainers/run/state_sync.h"
#include "trainers/run/summary.h"

namespace mtrun::trainers {
namespace {

/// Without a launcher nobody regroups: who is to go, and finds that the others went first, goes as they did.
bool OthersWentFirst(const Membership& membership, const absl::Status& status) {
  return !membership.elastic() && membership.wants_drain() && MeansRegroup(status);
}

}  // namespace

TrainLoop::TrainLoop(const Inputs& inputs, Membership& membership, ProgressLine& progress, TimePoint start)
    : in_(inputs),
      membership_(membership),
      progress_(progress),
      start_(start),
      source_(inputs.train, inputs.options.source(), inputs.batch),
      step_source_(MakeStepSource(source_, inputs)),
      test_batches_(MakeImageBatches(inputs.test, inputs.test_batch.value_or(inputs.batch))),
      final_batches_(inputs.final_test != nullptr
                         ? MakeImageBatches(*inputs.final_test, inputs.test_batch.value_or(inputs.batch))
                         : nullptr),
      state_(inputs.task.module(), StateOptions(inputs)),
      length_(LengthOf(inputs.options, source_.steps_per_epoch())),
      schedule_(LrScheduleOf(inputs.options, length_)),
      pacer_(progress.terminal(), inputs.options.log_every, MonotonicNow()),
      replica_(inputs.identity, state_),
      lifecycle_(RulesOf(inputs.options, length_), MonotonicNow()),
      lease_(membership, progress, inputs.grace),
      files_(FilesOptions(
          inputs, membership, [this](int64_t step) { return source_.DigestOfStep(step); },
          [this] { StillHere(); })),
      watch_(files_, state_, inputs.options.clip_norm > 0, PciAddress(inputs.batch.device)),
      meter_(length_),
      data_wait_(inputs.arrival, inputs.data_wait, membership, files_, [this] { StillHere(); }),
      report_(EmptyReport(inputs)),
      run_began_(start) {}

absl::StatusOr<Outcome> TrainLoop::Run() {
  while (true) {
    const absl::Status status = RunGeneration();
    if (status.ok()) break;
    const bool others_went = OthersWentFirst(membership_, status);
    if (absl::IsCancelled(status) || others_went) {  // it is to go, and waited for its data or for others
      MT_ASSIGN_OR_RETURN(const bool stopped, StopWhileWaiting(others_went ? membership_.drain_wish()
                                                                           : std::string(status.message())));
      if (stopped) break;
      continue;
    }
    if (!std::exchange(in_order_, false)) {
      const Assignment& who = membership_.assignment();
      WriteFlight(in_.options.model_folder, {.rank = who.rank,
                                             .world = who.world_size,
                                             .generation = replica_.generation(),
                                             .steps = steps(),
                                             .why = std::string(status.message())});
    }
    if (!membership_.elastic() || !MeansRegroup(status)) return status;
    broke_ = MonotonicNow();
    why_ = std::string(status.message());
    // On a terminal its launcher tells people, in one line for all workers of a node; a log has every reason.
    if (!progress_.terminal()) log::Info("regrouping: ", std::string(status.message()));
    // What the old group lent goes first: its memory, and the hooks that write into it.
    stuck_step_.reset();
    generation_.reset();
    const absl::Status regrouped = membership_.Regroup(status);
    if (regrouped.code() == absl::StatusCode::kCancelled) {
      MT_ASSIGN_OR_RETURN(const bool stopped, StopWhileWaiting(std::string(regrouped.message())));
      if (stopped) break;
      continue;
    }
    MT_RETURN_IF_ERROR(regrouped);
  }
  return outcome_;
}

absl::Status TrainLoop::RunGeneration() {
  MT_RETURN_IF_ERROR(Enter());
  stuck_step_.emplace(membership_, in_.grace);
  while (true) {
    MT_ASSIGN_OR_RETURN(const bool over, RunOnce());
    if (over) return absl::OkStatus();
  }
}

absl::StatusOr<bool> TrainLoop::RunOnce() {
  const checkpoints::Position at = replica_.position();
  const Decision decision = lifecycle_.Next(at, membership_.generation_is_over(), MonotonicNow());
  switch (decision.action) {
    case Action::kStep:
      MT_RETURN_IF_ERROR(stuck_step_->Run([this] { return Step(); }));
      return false;
    case Action::kEvaluate:
      MT_RETURN_IF_ERROR(EndEpoch());
      return false;
    case Action::kSave:
      MT_RETURN_IF_ERROR(lease_.Await(absl::StrCat("the checkpoint of step ", steps())));
      MT_RETURN_IF_ERROR(Save());
      return false;
    case Action::kRegroup:
      in_order_ = true;
      return absl::UnavailableError(Describe(decision, lifecycle_, at));
    case Action::kLeave:
      MT_RETURN_IF_ERROR(Leave(decision.cause));
      return true;
    case Action::kFinish:
      MT_RETURN_IF_ERROR(FinishRun());
      return true;
  }
  return absl::InternalError("a decision that is none");
}

// ---- the beginning of a generation

absl::Status TrainLoop::Enter() {
  const Assignment& who = membership_.assignment();
  MT_RETURN_IF_ERROR(files_.Flush());
  MT_RETURN_IF_ERROR(CheckMembersAgree());
  if (knows_run_) replica_.progress().seconds = SecondsOfRun();  // whoever takes it over counts on from here
  MT_ASSIGN_OR_RETURN(const RunReplica::Begun begun,
                      replica_.Enter(membership_, in_.options.model_folder, in_.options.resume, in_.agent));
  if (begun.received || !begun.resumed.empty()) AdoptProgress(begun);
  knows_run_ = true;
  report_.world_size = who.world_size;
  report_.nodes = who.nodes;
  generation_.emplace(
      in_, step_source_ ? *step_source_ : source_, state_, membership_.group(),
      [this] { return lease_.Await(absl::StrCat("step ", steps())); }, refused_);
  in_.task.module().train();
  writer_ = begun.writer;
  MT_RETURN_IF_ERROR(EnterFiles(begun));
  MT_RETURN_IF_ERROR(data_wait_.Enter(steps()));
  lifecycle_.Enter(who.world_size, membership_.elastic(), files_.saves(), replica_.progress().finished);
  if (!begun.fresh && begun.resumed.empty()) MT_RETURN_IF_ERROR(KeepBest(/*of_others=*/true));
  StopIfStale();
  Announce(begun);
  entered_ = MonotonicNow();
  meter_.Restart(entered_, replica_.progress().samples);
  watch_.Enter(who, in_.options.plan.micro_batches(), entered_);
  return absl::OkStatus();
}

void TrainLoop::Announce(const RunReplica::Begun& begun) {
  const Assignment& who = membership_.assignment();
  progress_.SetQuiet(who.rank != 0);
  const bool resumed = !begun.resumed.empty();
  if ((begun.fresh || (resumed && !begun.held)) && in_.greeting)
    progress_.Print(in_.greeting(progress_.columns().value_or(0)));
  if (resumed) {
    progress_.Print(absl::StrCat("resumed from ", begun.resumed, " at step ", steps()));
    WarnOfOtherSchedule();
  } else if (!begun.fresh && !progress_.terminal()) {  // there its launcher says so
    progress_.Print(absl::StrCat("continuing with ", who.world_size,
                                 who.world_size == 1 ? " worker" : " workers", " at step ", steps()));
  }
}

/// Where the checkpoint is of a run of another length.
void TrainLoop::WarnOfOtherSchedule() const {
  const int64_t earlier = replica_.progress().schedule_steps;
  if (earlier == 0 || membership_.assignment().rank != 0) return;
  const std::string other = DescribeOtherSchedule(schedule_, earlier, steps(), length_.steps_per_epoch);
  if (!other.empty()) log::Warning(other);
}

absl::Status TrainLoop::CheckMembersAgree() const {
  const absl::Status same = CheckAgreement(membership_.group(), in_.identity);
  // It is the newcomer that does not fit: it says so and goes, and the run continues without it.
  if (absl::IsFailedPrecondition(same) && replica_.exists()) return absl::UnavailableError(same.message());
  return same;
}

/// After taking a run over from a checkpoint or another member: what this one knew of it counts no more.
void TrainLoop::AdoptProgress(const RunReplica::Begun& begun) {
  const RunProgress& progress = replica_.progress();
  report_ = EmptyReport(in_);
  for (const EvalRecord& record : progress.history) report_.Add(record);
  if (!progress.confusion.empty()) report_.matrix = ConfusionMatrix(progress.confusion);
  files_.Forget(progress.last_step);
  // Nothing happened to a checkpoint's run until this process began; a member's went on.
  const TimePoint now = begun.resumed.empty() || begun.held ? MonotonicNow() : start_;
  run_began_ = begun.fresh ? start_ : now - FromSeconds(progress.seconds);
}

absl::Status TrainLoop::Barrier() const { return FirstMember(membership_.group(), false).status(); }

// ---- a step

absl::Status TrainLoop::Step() {
  const Assignment& who = membership_.assignment();
  const TimePoint began = MonotonicNow();
  Pace(membership_, began + in_.pace);
  MT_ASSIGN_OR_RETURN(const Duration waited, data_wait_.AwaitStep(steps()));
  const double learning_rate = LearningRate(schedule_, steps());
  const StepVotes votes{.leave = membership_.wants_drain(), .regroup = membership_.wants_regroup()};
  absl::StatusOr<StepResult> result =
      generation_->runner.Run(steps(), who.rank, who.world_size, learning_rate, votes);
  if (absl::IsOutOfRange(result.status())) {
    // The numbers have broken down: it helps to know where the run can begin again.
    return absl::OutOfRangeError(absl::StrCat(result.status().message(), ". ", files_.LastCheckpoint()));
  }
  MT_RETURN_IF_ERROR(result.status());
  result->times.data += ToSeconds(waited);
  MT_RETURN_IF_ERROR(Account(*result, learning_rate, began));
  lifecycle_.Stepped({result->leaving, result->regrouping}, votes.leave);
  return broke_ ? ReportRegroup() : absl::OkStatus();
}

/// Counts the step, records it and shows it.
absl::Status TrainLoop::Account(const StepResult& result, double learning_rate, TimePoint began) {
  const TimePoint now = MonotonicNow();
  RunProgress& progress = replica_.progress();
  EpochMeter::Add(result, ToSeconds(now - began), progress);
  FinishedStep step{.record = {.step = steps(),
                               .epoch = length_.EpochOf(steps() + 1),
                               .loss = result.loss,
                               .learning_rate = learning_rate,
                               .samples = result.samples,
                               .seconds = ToSeconds(now - began),
                               .skipped = result.skipped},
                    .generation = replica_.generation(),
                    .world = membership_.assignment().world_size,
                    .gathered = result.gathered,
                    .times = result.times};
  if (in_.task.classes() > 0) step.correct = result.correct;
  watch_.Look(step, now);
  progress.last_step = step;
  replica_.FinishStep();
  membership_.ReportProgress(step.record.epoch, steps(), progress.samples);
  membership_.ReportTimes({.step = steps(),
                           .data_seconds = result.times.data,
                           .exchange_seconds = result.times.wait,
                           .loss = result.loss,
                           .learning_rate = learning_rate});
  const double smoothed = smoothed_.Add(result.loss);
  if (membership_.assignment().rank == 0 && pacer_.Due(steps(), now)) {
    ProgressState state = meter_.Show(steps(), smoothed, learning_rate, progress, now);
    state.world = membership_.assignment().world_size;
    state.memory = MemoryInUse(in_.batch.device);
    progress_.Show(state);
  }
  MT_RETURN_IF_ERROR(files_.Record(step, now));  // before what may have to wait for room
  const int64_t every = in_.task.picture_every();
  if (files_.writes() && every > 0 && steps() % every == 0)
    MT_RETURN_IF_ERROR(files_.WithRoom([this] { return DrawPicture(); }));
  return watch_.Count(result, steps(), now);
}

// ---- checkpoints; evaluations are in train_loop_evaluation.cc

absl::Status TrainLoop::Save() {
  const TimePoint began = MonotonicNow();
  lifecycle_.Saved(replica_.position(), began);
  replica_.progress().seconds = SecondsOfRun();
  replica_.progress().saving = files_.last_save_seconds();
  replica_.progress().schedule_steps = schedule_.steps;
  MT_ASSIGN_OR_RETURN(checkpoints::Snapshot snapshot, replica_.TakeSnapshot());
  snapshot.model.metadata = in_.metadata;
  snapshot.may_commit = [this] { return lease_.MayCommit(); };
  MT_RETURN_IF_ERROR(files_.Save(std::move(snapshot), report_.BestSteps(), began));
  Reach(Fault::At::kSave);
  return absl::OkStatus();
}

// ---- the end of the run, and of this worker's part in it

/// Says that the run is complete once everything is on the disk. Where a membership has begun meanwhile, its
/// members get here again, and what is on the disk already is not written twice.
absl::Status TrainLoop::FinishRun() {
  RunProgress& progress = replica_.progress();
  // The barrier below may have ended for some before their membership broke: what they know all know now.
  MT_ASSIGN_OR_RETURN(const std::optional<int> written, FirstMember(membership_.group(), progress.finished));
  const bool first = !written;
  MT_RETURN_IF_ERROR(lease_.Await("the results"));
  if (first && final_batches_) MT_RETURN_IF_ERROR(TestBest());
  if (first) MT_RETURN_IF_ERROR(WriteResults());
  // Nobody is done before everything is on the disk: until then a successor of rank 0 would have to write it.
  MT_RETURN_IF_ERROR(Barrier());
  progress.finished = true;
  if (first) {
    progress_.Print(
        absl::StrCat("\nweights, metrics, checkpoints and this report are in ", in_.options.model_folder));
  }
  return membership_.ReportDone(steps());
}

absl::Status TrainLoop::WriteResults() {
  report_.steps = steps();
  report_.seconds = SecondsOfRun();
  report_.images_per_second = static_cast<double>(replica_.progress().samples) / report_.training_seconds;
  progress_.Print("\n" + SummaryText(report_, progress_.columns().value_or(0)));
  if (!files_.Wait().ok()) {
    MT_RETURN_IF_ERROR(Save());
    // Its failure has been logged; the weights by themselves may still fit.
    files_.Wait().IgnoreError();
  }
  if (!files_.writes()) return absl::OkStatus();
  if (const auto best = report_.BestSteps()) {
    MT_RETURN_IF_ERROR(files_.WithRoom([&] {
      return KeepBestOf(state_, in_.options.model_folder, *best, report_.best_epoch, in_.metadata);
    }));
  }
  return files_.WithRoom([this] { return in_.finish(state_, report_); });
}

absl::Status TrainLoop::Leave(Decision::Cause cause) {
  // Where no generation follows it may be another one's.
  const std::string why =
      membership_.wants_drain() ? membership_.drain_wish() : "another worker was told to go";
  if (cause == Decision::Cause::kVotedToLeave) {
    outcome_.complete = false;
    outcome_.stopped =
        absl::StrCat(why, ": ", Describe({Action::kLeave, cause}, lifecycle_, replica_.position()));
    // The next writer may open the files before this one's last checkpoint is on the disk.
    files_.Flush().IgnoreError();
    membership_.ReportLeaving(why);
    return absl::OkStatus();
  }
  const absl::Status saved = files_.Wait();
  if (files_.writes()) MT_RETURN_IF_ERROR(saved);  // of a copy it is enough that it has been logged
  MT_RETURN_IF_ERROR(Barrier());
  StopRun(why);
  return absl::OkStatus();
}

/// The whole run stops here. `saved`: OK where its state is on the disk.
void TrainLoop::StopRun(const std::string& why, const absl::Status& saved) {
  outcome_.complete = false;
  outcome_.signal = DrainSignal() != 0 ? DrainSignal() : SIGTERM;
  const std::string unsaved = saved.ok() ? "" : absl::StrCat(", not saved: ", saved.message());
  outcome_.stopped = why;
  if (!membership_.work_is_done()) {
    absl::StrAppend(&outcome_.stopped, ": stopped at step ", steps(), " of ", length_.steps, unsaved,
                    "; the same command continues from ", in_.options.model_folder);
  }
  membership_.ReportLeaving(why);
}

/// This worker is to go while it waits for others: what it holds may be the newest there is. False: a
/// generation has formed in which the others wait for it, and it has entered that one.
absl::StatusOr<bool> TrainLoop::StopWhileWaiting(const std::string& why) {
  absl::Status lease;
  bool leaves_unsaved = false;
  // A spare of a job that is done holds what nobody needs, and nobody renews its lease.
  if (replica_.exists() && !membership_.work_is_done() && !membership_.others_continue()) {
    lease = lease_.AwaitOutside("the last checkpoint");
    const absl::Status saved = lease.ok() ? SaveBeforeLeaving(
                                                membership_, in_.grace, [this] { StillHere(); },
                                                [this] { return SaveUnlessSaved(); })
                                          : absl::OkStatus();
    if (absl::IsAborted(lease) || absl::IsAborted(saved)) {
      generation_.reset();
      const absl::Status regrouped = membership_.Regroup(lease.ok() ? saved : lease);
      if (absl::IsCancelled(regrouped)) return StopWhileWaiting(std::string(regrouped.message()));
      MT_RETURN_IF_ERROR(regrouped);
      return false;
    }
    // mtrun knows whether other nodes continue, and its exit status says so.
    leaves_unsaved = IsRefusedByDisk(saved) && membership_.elastic();
    if (!leaves_unsaved) MT_RETURN_IF_ERROR(saved);
    if (leaves_unsaved) log::Error("step ", steps(), " is not saved here: ", std::string(saved.message()));
  }
  if (!leaves_unsaved && !membership_.others_continue()) {
    StopRun(why, lease);
    return true;
  }
  outcome_.complete = false;
  outcome_.stopped = absl::StrCat(why, ": left at step ", steps(), "; the job continues on other nodes",
                                  leaves_unsaved ? ", if there are any" : "");
  membership_.ReportLeaving(why);
  return true;
}

void TrainLoop::Reach(Fault::At at) {
  if (in_.faults != nullptr) in_.faults->Reach(at, steps());
}

}  // namespace mtrun::trainers
