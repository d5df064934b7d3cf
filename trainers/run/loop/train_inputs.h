// The inputs of a training run.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/posix.h"
#include "datasets/packed/packed.h"
#include "trainers/device/amp.h"
#include "trainers/device/graph.h"
#include "trainers/input/batch.h"
#include "trainers/input/micro_batch_source.h"
#include "trainers/run/arrival/data_arrival.h"
#include "trainers/run/records/report.h"
#include "trainers/run/rules/identity.h"
#include "trainers/run/rules/options.h"
#include "trainers/step/fault_plan.h"
#include "trainers/step/task.h"
#include "trainers/step/train_state.h"

namespace mtrun::trainers {

/// The references must outlive the run.
struct TrainInputs {
  const std::string& program;  // its name
  const TrainOptions& options;
  const datasets::PackedSplit& train;
  const datasets::PackedSplit& test;  // evaluated after each epoch to choose the best one
  Task& task;
  BatchOptions batch;
  std::optional<BatchOptions> test_batch = {};  // unset: same as `batch`
  Precision precision = Precision::kFp32;
  GraphFactory graphs = nullptr;  // --graph
  /// Images for one test of the best weights when the run is complete. If null, those of `test` are used.
  const datasets::PackedSplit* final_test = nullptr;
  std::map<std::string, std::string> metadata = {};  // for files with weights
  RunIdentity identity;                              // what members and restarts must agree on
  std::string settings;                              // config.yaml
  std::string environment = {};                      // environment.json; "": none
  std::string agent = {};                            // this worker's mtrun (fresh_start.h); "": none
  /// Returns text for people, shown if the run begins or continues from a checkpoint. `columns`: the width of
  /// their screen; 0: there is none. Null: no text.
  std::function<std::string(int columns)> greeting = nullptr;
  FaultPlan* faults = nullptr;  // null: none are planned
  /// Makes a source between the run's source and its steps; null: none. For tests of workers that gather
  /// other samples than their own.
  std::function<std::unique_ptr<MicroBatchSource>(MicroBatchSource& source)> step_source = nullptr;
  /// Makes `preview.png` in the model_folder for the curves and the report, and returns its path. Null: none.
  std::function<absl::StatusOr<std::string>()> preview = nullptr;
  /// Locks the folder for the save of the last state. Replaced in tests of file systems without locks.
  std::function<absl::StatusOr<UniqueFd>(const std::string& folder)> lock_folder = LockFolder;
  Duration grace = {};             // from a polite signal to SIGKILL; zero: unknown
  Duration pace = {};              // minimum duration of a step or an evaluation batch; for tests
  Duration data_wait = {};         // how long this worker waited for its data before the run
  DataArrival* arrival = nullptr;  // data that is still to arrive; null: all images are there
  /// Writes weights and report: on the run's writer, when the run is complete and before any member ends.
  std::function<absl::Status(const TrainState&, const RunReport&)> finish;
};

}  // namespace mtrun::trainers
