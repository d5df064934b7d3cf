// Evaluations of a run: before it, to warm up, after each epoch, and the test of the best weights at its end.
#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainers/run/best_weights.h"
#include "trainers/run/pace.h"
#include "trainers/run/train_loop.h"
#include "trainers/step/warm_up.h"

namespace mtrun::trainers {

absl::StatusOr<Evaluation> TrainLoop::EvaluateOn(const ImageBatches& batches,
                                                 const datasets::PackedSplit& split) {
  const Assignment& who = membership_.assignment();
  const int64_t wanted = in_.options.eval_images;
  const int64_t size = wanted > 0 ? std::min(wanted, split.size()) : split.size();
  MT_RETURN_IF_ERROR(data_wait_.AwaitImages(split, size, steps()));
  Reach(Fault::At::kEvaluate);
  const EvaluationPart part{.size = size,
                            .rank = who.rank,
                            .world_size = who.world_size,
                            .precision = in_.precision,
                            .image_size = in_.options.test_image_size()};
  TimePoint began = MonotonicNow();
  return Evaluate(in_.task, batches, part, membership_.group(), [this, &began]() -> absl::Status {
    Pace(membership_, began + in_.pace);
    StillHere();
    began = MonotonicNow();
    if (!GivesEvaluationUp(membership_.told_to_go_at(), in_.grace, began)) return absl::OkStatus();
    in_order_ = true;
    return EndForLeaving(membership_, absl::StrCat(membership_.drain_wish(), ": the evaluation of step ",
                                                   steps(), " is given up"));
  });
}

absl::Status TrainLoop::WarmUp() {
  MT_RETURN_IF_ERROR(
      trainers::WarmUp(in_.task, step_source_ ? *step_source_ : source_, state_,
                       {.seed = in_.options.seed, .precision = in_.precision, .graphs = in_.graphs}));
  if (in_.arrival != nullptr) return absl::OkStatus();
  const int image_size = in_.options.test_image_size();
  const int64_t one_batch = std::min(in_.test.size(), EvaluationBatch(image_size, in_.batch.device.is_cpu()));
  const EvaluationPart part{.size = one_batch, .precision = in_.precision, .image_size = image_size};
  return Evaluate(in_.task, *test_batches_, part, nullptr).status();
}

/// Slow, but not hung.
void TrainLoop::StillHere() {
  membership_.ReportProgress(length_.EpochOf(steps()), steps(), replica_.progress().samples);
}

absl::Status TrainLoop::EndEpoch() {
  MT_RETURN_IF_ERROR(files_.Flush());  // who gives it up may take the files over
  std::optional<TrainState::Averaged> averaged(std::in_place, state_);
  MT_ASSIGN_OR_RETURN(const Evaluation evaluation, EvaluateOn(*test_batches_, in_.test));
  averaged.reset();
  MT_RETURN_IF_ERROR(lease_.Await(absl::StrCat("the evaluation of step ", steps())));
  RunProgress& progress = replica_.progress();
  EvalRecord record = meter_.EndEpoch(steps(), evaluation.loss, evaluation.matrix, in_.task.classes() > 0,
                                      progress, evaluation.top5);
  record.validation = in_.final_test != nullptr;
  progress.history.back() = record;
  const bool new_best = report_.Add(record);
  report_.matrix = evaluation.matrix;
  replica_.FinishEvaluation();
  lifecycle_.Evaluated();
  progress_.Print(EpochText(record, in_.options.epochs, new_best, progress_.columns().value_or(0)));
  MT_RETURN_IF_ERROR(files_.Record(record, evaluation.matrix));
  if (new_best) MT_RETURN_IF_ERROR(KeepBest());
  StopIfStale();
  meter_.Restart(MonotonicNow(), progress.samples);
  return absl::OkStatus();
}

/// `of_others`: whoever wrote the run's files when this epoch was evaluated may have gone before its weights
/// and their checkpoint were on the disk. While no step has followed, the members hold them still.
absl::Status TrainLoop::KeepBest(bool of_others) {
  if (!replica_.position().evaluated || report_.BestSteps() != steps()) return absl::OkStatus();
  if (of_others) lifecycle_.Evaluated();  // so that a checkpoint is due where one is after that epoch
  if (!files_.writes() || (of_others && HoldsBest(in_.options.model_folder, steps())))
    return absl::OkStatus();
  return files_.WithRoom([this] {
    return SaveBest(in_.options.model_folder, state_, steps(), report_.best_epoch, in_.metadata);
  });
}

/// All members know the same history.
void TrainLoop::StopIfStale() {
  const int64_t patience = in_.options.early_stopping_epochs;
  const checkpoints::Position& at = replica_.position();
  if (!at.evaluated || !report_.IsStale(patience) || at.steps >= length_.steps) return;
  lifecycle_.EndAt(at);
  progress_.Print(absl::StrCat("no epoch was better than epoch ", report_.best_epoch, " for ", patience,
                               patience == 1 ? " epoch" : " epochs", ": the run stops early"));
}

/// Once, when everything is trained: by the weights of the best epoch, as the writer's folder or its
/// checkpoint of that epoch has them, or by the final ones where neither does.
absl::Status TrainLoop::TestBest() {
  BorrowedWeights weights(state_);
  std::string found;
  if (membership_.assignment().rank == writer_)
    found = weights.Load(in_.options.model_folder, report_.BestSteps(), report_.best_epoch);
  MT_RETURN_IF_ERROR(weights.Share(membership_.group(), membership_.assignment().rank, writer_, found));
  std::optional<TrainState::Averaged> averaged;
  if (found.empty()) averaged.emplace(state_);
  MT_ASSIGN_OR_RETURN(const Evaluation evaluation, EvaluateOn(*final_batches_, *in_.final_test));
  averaged.reset();
  report_.matrix = evaluation.matrix;
  report_.test_loss = evaluation.loss;
  report_.test_top5 = evaluation.top5;
  report_.tested_epoch = found.empty() ? 0 : report_.best_epoch;
  return absl::OkStatus();
}

}  // namespace mtrun::trainers
