// The training loop, second half: checkpoints, and how epochs, the run and this worker's part in it end.
#include <algorithm>
#include <csignal>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "trainers/engine/drain.h"
#include "trainers/engine/regroup.h"
#include "trainers/engine/torch_status.h"
#include "trainers/engine/train_loop.h"

namespace mtrun::engine {

// ---- checkpoints

/// Where a run whose numbers have broken down can begin again.
absl::Status TrainLoop::NameLastCheckpoint(const absl::Status& why) {
  if (checkpoints()) checkpoints()->Wait().IgnoreError();  // its failure has been told
  const std::string& folder = in_.options.model_folder;
  const auto search = checkpoints::FindNewest(checkpoints::RealFiles(), folder);
  const bool there = search.ok() && search->newest;
  return absl::Status(why.code(),
                      absl::StrCat(why.message(), ". ",
                                   there ? absl::StrCat("The last good checkpoint is ", search->newest->path)
                                         : absl::StrCat("There is no checkpoint in ", folder)));
}

absl::Status TrainLoop::SaveIfDue(bool epoch_ended) {
  if (!checkpoints()) return absl::OkStatus();
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
  carried_.progress().seconds = SecondsOfRun();
  carried_.progress().saving = checkpoints()->last_seconds();
  // A run that goes on from this checkpoint finds the records of the steps before it.
  if (folder_) MT_RETURN_IF_ERROR(folder_->Flush());
  MT_ASSIGN_OR_RETURN(checkpoints::Snapshot snapshot, carried_.TakeSnapshot());
  const std::vector<EvalRecord>& history = report_.history;
  const auto best = std::find_if(history.begin(), history.end(), [&](const EvalRecord& record) {
    return record.epoch == report_.best_epoch;
  });
  const int64_t bytes = snapshot.TensorBytes();
  checkpoints()->Save(std::move(snapshot), best == history.end() ? std::nullopt : std::optional(best->steps));
  if (folder_) {
    MT_RETURN_IF_ERROR(folder_->Record(
        SaveRecord{.steps = steps(), .bytes = bytes, .stall = ToSeconds(MonotonicNow() - saved_)}));
  }
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
  const auto still_here = [&] { team_.ReportProgress(epoch(), steps(), carried_.progress().samples); };
  return Evaluate(in_.task, *test_batches_, size, who.rank, who.world_size, team_.group(), still_here);
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
  if (folder_) MT_RETURN_IF_ERROR(folder_->Record(record));
  return SaveIfDue(/*epoch_ended=*/true);
}

/// Says that the run is complete once everything is on the disk. Where a membership has begun meanwhile, its
/// members get here again, and what is on the disk already is not written twice.
absl::Status TrainLoop::FinishRun() {
  RunProgress& progress = carried_.progress();
  const bool first = !progress.finished;
  if (first) MT_RETURN_IF_ERROR(WriteResults());
  // Nobody is done before everything is on the disk: until then a successor of rank 0 would have to write it.
  MT_RETURN_IF_ERROR(AnyMember(team_.group(), false).status());
  progress.finished = true;
  if (first) {
    progress_.Print(
        absl::StrCat("\nweights, metrics, checkpoints and this report are in ", in_.options.model_folder));
  }
  return team_.ReportDone(steps());
}

absl::Status TrainLoop::WriteResults() {
  report_.steps = steps();
  report_.seconds = SecondsOfRun();
  report_.images_per_second = static_cast<double>(carried_.progress().samples) / report_.training_seconds;
  progress_.Print("\n" + ReportText(report_));
  if (!checkpoints()) return absl::OkStatus();
  MT_RETURN_IF_ERROR(Save());
  // Its failure has been told; the weights by themselves may still fit.
  checkpoints()->Wait().IgnoreError();
  return folder_ ? in_.finish(learner_, report_) : absl::OkStatus();
}

/// Behind a step whose reduction said that `leaving` members want to go, this one among them or not.
absl::Status TrainLoop::Stop(int leaving, bool wish) {
  const int world = team_.assignment().world_size;
  if (leaving < world && !wish) {
    return absl::UnavailableError(
        absl::StrCat(leaving, " of ", world, " workers leave behind step ", steps() - 1));
  }
  const std::string why = team_.drain_wish();
  if (leaving < world) {
    outcome_.complete = false;
    outcome_.stopped =
        absl::StrCat(why, ": left behind step ", steps() - 1, ", the other workers go on without this one");
    team_.ReportLeaving(why);
    return absl::OkStatus();
  }
  if (checkpoints()) {
    MT_RETURN_IF_ERROR(Save());
    const absl::Status saved = checkpoints()->Wait();
    if (folder_) MT_RETURN_IF_ERROR(saved);  // of a copy it is enough that it has been told
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

/// This worker is to go while it waits for others: what it carries is the newest there is. Others who carry
/// it, here or on other nodes, may be told to go at the same time or have died before: the first to come
/// saves it for all.
absl::Status TrainLoop::StopWhileWaiting(const std::string& why) {
  if (carried_.exists()) {
    const std::string& path = in_.options.model_folder;
    MT_RETURN_IF_ERROR(CheckRunFolder(path));
    MT_ASSIGN_OR_RETURN(const UniqueFd turn, LockFolder(path));
    MT_ASSIGN_OR_RETURN(const auto saved, checkpoints::CompleteSteps(checkpoints::RealFiles(), path));
    if (std::count(saved.begin(), saved.end(), steps()) == 0) {
      MT_RETURN_IF_ERROR(OpenFolder(/*fresh=*/false));
      MT_RETURN_IF_ERROR(Save());
      MT_RETURN_IF_ERROR(folder_->checkpoints().Wait());
    }
  }
  StopRun(why);
  return absl::OkStatus();
}

}  // namespace mtrun::engine
