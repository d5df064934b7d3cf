// The run of a task over epochs and steps: order of samples, learning rate, evaluation after each epoch,
// records, checkpoints and progress, while workers come and go. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "datasets/packed.h"
#include "trainers/engine/carried_run.h"
#include "trainers/engine/dataset_shards.h"
#include "trainers/engine/evaluate.h"
#include "trainers/engine/fault_plan.h"
#include "trainers/engine/learner.h"
#include "trainers/engine/membership.h"
#include "trainers/engine/metrics_log.h"
#include "trainers/engine/options.h"
#include "trainers/engine/prefetched_shards.h"
#include "trainers/engine/progress.h"
#include "trainers/engine/report.h"
#include "trainers/engine/run_folder.h"
#include "trainers/engine/step.h"

namespace mtrun::engine {

/// How a run ended.
struct Outcome {
  bool complete = true;  // false: the run stops early, or goes on without this worker
  std::string stopped;   // why and where, in words
  int signal = 0;        // that stopped the run; 0: it is complete, or goes on without this worker
};

class TrainLoop {
 public:
  struct Inputs {
    const std::string& program;  // its name
    const TrainOptions& options;
    const datasets::PackedSplit& train;
    const datasets::PackedSplit& test;
    Task& task;
    BatchOptions batch;
    Precision precision = Precision::kFp32;
    GraphFactory graphs = nullptr;   // --graph
    checkpoints::Identity identity;  // what all members and all restarts must agree on
    std::string settings;            // config.yaml
    std::string greeting;            // for people, where the run begins or goes on from a checkpoint
    FaultPlan* faults = nullptr;     // null: none are planned
    Duration grace = {};             // from a polite signal to SIGKILL, zero: unknown
    Duration pace = {};              // a step lasts at least so long: tests that need long steps
    /// On the keeper of the run's files, when the run is complete and before anybody is done: weights and
    /// report.
    std::function<absl::Status(const Learner&, const RunReport&)> finish;
  };

  /// All references must outlive this. `start`: when the program began.
  TrainLoop(const Inputs& inputs, Team& team, ProgressLine& progress, TimePoint start);

  /// Trains to the end, over any number of memberships.
  absl::StatusOr<Outcome> Run();

 private:
  /// What belongs to one generation; made anew in the next.
  struct Crew {
    Crew(const Inputs& in, ShardSource& source, Learner& learner, const collectives::ProcessGroup& group);
    DataParallel data_parallel;
    StepRunner runner;
  };

  /// A finished step as the run's files record it.
  struct Finished {
    StepRecord record;
    uint64_t generation = 1;
    int world = 1;
  };

  /// One membership, to the end of the run or until it breaks.
  absl::Status RunGeneration();
  absl::Status Enter();
  absl::Status CheckMembersAgree() const;
  void AdoptProgress(const CarriedRun::Begun& begun);
  absl::Status OpenFolder(bool fresh);
  absl::Status FindOwnFolder(const CarriedRun::Begun& begun);
  absl::Status OpenCopies(bool fresh);
  CheckpointWriter::Options CheckpointOptions() const;
  /// Null where another member saves for this one.
  CheckpointWriter* checkpoints();
  absl::Status ReportRegroup();
  absl::Status Turn();
  absl::Status Step();
  void Pace(TimePoint began) const;
  absl::Status Keep(const StepResult& result, double learning_rate, TimePoint began, TimePoint now);
  absl::Status Write(const Finished& step, TimePoint now);
  absl::Status NameLastCheckpoint(const absl::Status& why);
  absl::Status SaveIfDue(bool epoch_ended);
  absl::Status Save();
  absl::Status FinishEpoch();
  absl::Status FinishRun();
  absl::Status WriteResults();
  absl::Status Stop(int leaving, bool wish);
  absl::Status StopWhileWaiting(const std::string& why);
  void StopRun(const std::string& why);
  absl::StatusOr<Evaluation> EvaluateNow();
  absl::Status DrawPicture();
  void ShowProgress(const StepResult& result, double learning_rate, TimePoint now);
  void Reach(Fault::At at);

  int64_t steps() const { return carried_.position().steps; }
  RunReport EmptyReport() const;
  double SecondsOfRun() const { return ToSeconds(MonotonicNow() - run_began_); }
  /// Of the step to come, from 0.
  int64_t epoch() const { return steps() / source_.steps_per_epoch(); }
  bool EvaluationIsDue() const;

  // Constant after construction.
  const Inputs in_;
  Team& team_;
  ProgressLine& progress_;
  const TimePoint start_;

  DatasetShards source_;
  const std::unique_ptr<PrefetchedShards> prefetched_;  // null where batches are made when they are asked for
  const std::unique_ptr<ImageBatches> test_batches_;
  Learner learner_;
  const Schedule schedule_;
  ProgressPacer pacer_;

  // State of the run.
  CarriedRun carried_;
  std::optional<Crew> crew_;
  std::unique_ptr<RunFolder> folder_;  // on the one who keeps it
  // On a node whose folder is not the keeper's: it keeps checkpoints besides, should the keeper's disk be
  // lost.
  std::unique_ptr<CheckpointWriter> copies_;
  std::deque<Finished> recent_;  // what a new keeper may have to record for its predecessor
  RunReport report_;             // of the carried progress
  TimePoint run_began_;          // as if the whole run were this process's
  TimePoint shown_;              // when progress was last shown, and how many samples had been consumed then
  int64_t shown_samples_ = 0;
  std::optional<TimePoint> broke_;  // when the last membership did; until the first step of the next one
  TimePoint entered_;               // when the running one began its steps
  TimePoint saved_;                 // when the last checkpoint was taken
  Outcome outcome_;
};

}  // namespace mtrun::engine
