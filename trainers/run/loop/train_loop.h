// The run of a task over epochs and steps, while workers come and go. Lifecycle decides, TrainLoop acts. Not
// thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "trainers/features/frozen_features.h"
#include "trainers/run/arrival/data_wait.h"
#include "trainers/run/loop/generation_entry.h"
#include "trainers/run/loop/generation_state.h"
#include "trainers/run/loop/run_end.h"
#include "trainers/run/loop/run_member.h"
#include "trainers/run/loop/step_watch.h"
#include "trainers/run/records/epoch_meter.h"

namespace mtrun::trainers {

class TrainLoop {
 public:
  /// All references must outlive this. `start`: when the program began.
  TrainLoop(const TrainInputs& inputs, Membership& membership, ProgressLine& progress, TimePoint start);

  /// Warms up before `membership` has other members: a first step (see WarmUp), and the first batch of an
  /// evaluation if the test images are there.
  absl::Status WarmUp();
  /// Trains to the end, over any number of memberships.
  absl::StatusOr<Outcome> Run();

 private:
  // Generations.
  absl::StatusOr<Outcome> RunGeneration();
  absl::Status Enter();
  absl::StatusOr<std::optional<Outcome>> RunOnce();
  absl::StatusOr<std::optional<Outcome>> Continue(const absl::Status& ended);
  absl::StatusOr<Outcome> Finish();
  absl::StatusOr<std::optional<Outcome>> Regroup(const absl::Status& why);
  absl::StatusOr<std::optional<Outcome>> LeaveWhileWaiting(const std::string& why);

  // Steps.
  absl::Status Step();
  void ReportTimes(const FinishedStep& step, const StepResult& result);
  absl::Status Account(const StepResult& result, double learning_rate, TimePoint began);
  absl::Status DrawPicture();
  MicroBatchSource& Images() { return prefetched_ ? *prefetched_ : run_.source; }
  MicroBatchSource& StepSource() { return step_source_ ? *step_source_ : Images(); }

  // Evaluations.
  absl::Status EndEpoch();
  absl::StatusOr<Evaluation> EvaluateOn(const ImageBatches& batches, const datasets::PackedSplit& split);
  absl::Status KeepBest(bool of_others = false);
  void StopIfStale();

  RunMember run_;
  GenerationEntry entry_;
  RunEnd end_;
  const std::unique_ptr<FrozenFeatures> features_;       // null: no part of the network is frozen
  const std::unique_ptr<MicroBatchSource> prefetched_;   // null: images are made as they are taken
  const std::unique_ptr<MicroBatchSource> step_source_;  // null if steps take their batches from these
  const std::unique_ptr<ImageBatches> test_batches_;
  const std::unique_ptr<ImageBatches> final_batches_;  // null: no test beside the evaluations
  DataWait data_wait_;
  StepWatch watch_;
  EpochMeter meter_;
  ProgressPacer pacer_;
  SmoothedLoss smoothed_;
  RefusedSums refused_;  // from the last generation
  std::optional<GenerationState> generation_;
  bool in_order_ = false;  // the generation ends as intended, without a failure
};

}  // namespace mtrun::trainers
