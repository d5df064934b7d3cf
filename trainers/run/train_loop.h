// The run of a task over epochs and steps, while workers come and go: Lifecycle decides, this performs. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "trainers/input/dataset_source.h"
#include "trainers/input/micro_batch_source.h"
#include "trainers/membership/membership.h"
#include "trainers/run/data_wait.h"
#include "trainers/run/epoch_meter.h"
#include "trainers/run/generation_state.h"
#include "trainers/run/lease_wait.h"
#include "trainers/run/lifecycle.h"
#include "trainers/run/progress.h"
#include "trainers/run/report.h"
#include "trainers/run/run_files.h"
#include "trainers/run/run_replica.h"
#include "trainers/run/step_watch.h"
#include "trainers/run/train_inputs.h"
#include "trainers/step/evaluate.h"
#include "trainers/step/train_state.h"

namespace mtrun::trainers {

/// How a run ended.
struct Outcome {
  bool complete = true;  // false: the run stops early, or continues without this worker
  std::string stopped;   // why and where, in words
  int signal = 0;        // that stopped the run; 0: it is complete, or continues without this worker
};

class TrainLoop {
 public:
  using Inputs = TrainInputs;

  /// All references must outlive this. `start`: when the program began.
  TrainLoop(const Inputs& inputs, Membership& membership, ProgressLine& progress, TimePoint start);

  /// Before `membership` has others: a first step (see WarmUp), and an evaluation's first batch where test
  /// images are not still to come.
  absl::Status WarmUp();
  /// Trains to the end, over any number of memberships.
  absl::StatusOr<Outcome> Run();

 private:
  /// One membership, to the end of the run or until it breaks.
  absl::Status RunGeneration();
  absl::Status Enter();
  absl::Status EnterFiles(const RunReplica::Begun& begun);
  void WarnOfOtherSchedule() const;
  absl::Status CheckMembersAgree() const;
  void AdoptProgress(const RunReplica::Begun& begun);
  void Announce(const RunReplica::Begun& begun);
  /// Decides and performs once. True: this worker's part is over.
  absl::StatusOr<bool> RunOnce();

  absl::Status Step();
  absl::Status Account(const StepResult& result, double learning_rate, TimePoint began);
  absl::Status ReportRegroup();
  absl::Status DrawPicture();

  absl::Status EndEpoch();
  absl::StatusOr<Evaluation> EvaluateOn(const ImageBatches& batches, const datasets::PackedSplit& split);
  absl::Status KeepBest(bool of_others = false);
  absl::Status TestBest();
  void StopIfStale();
  void StillHere();
  absl::Status Save();

  absl::Status Leave(Decision::Cause cause);
  void StopRun(const std::string& why, const absl::Status& saved = absl::OkStatus());
  absl::StatusOr<bool> StopWhileWaiting(const std::string& why);
  absl::Status SaveUnlessSaved();
  absl::Status FinishRun();
  absl::Status WriteResults();

  absl::Status Barrier() const;
  void Reach(Fault::At at);
  int64_t steps() const { return replica_.position().steps; }
  RunFiles::Start FilesStart(bool fresh, const std::string& resumed = "") const;
  double SecondsOfRun() const { return ToSeconds(MonotonicNow() - run_began_); }

  // Constant after construction.
  const Inputs in_;
  Membership& membership_;
  ProgressLine& progress_;
  const TimePoint start_;

  DatasetSource source_;
  const std::unique_ptr<MicroBatchSource> step_source_;  // null where steps take their batches from source_
  const std::unique_ptr<ImageBatches> test_batches_;
  const std::unique_ptr<ImageBatches> final_batches_;  // null: test_batches_ serve
  TrainState state_;
  const RunLength length_;
  const LrSchedule schedule_;
  ProgressPacer pacer_;

  // State of the run.
  RunReplica replica_;
  Lifecycle lifecycle_;
  LeaseWait lease_;
  RunFiles files_;
  StepWatch watch_;
  EpochMeter meter_;
  DataWait data_wait_;
  SmoothedLoss smoothed_;
  RefusedSums refused_;  // of the last generation
  std::optional<GenerationState> generation_;
  int writer_ = 0;                  // rank that writes the run's files
  RunReport report_;                // of the replica's progress
  bool knows_run_ = false;          // this and the next are of that run
  TimePoint run_began_;             // as if the whole run were this process's
  std::optional<TimePoint> broke_;  // when the last membership did; until the first step of the next one
  std::string why_;                 // it did
  bool in_order_ = false;           // it does, and nothing has failed
  TimePoint entered_;               // when the running one began its steps
  Outcome outcome_;
};

}  // namespace mtrun::trainers
