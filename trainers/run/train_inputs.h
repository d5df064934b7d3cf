// What a training run is made of.
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
#include "datasets/packed.h"
#include "trainers/device/amp.h"
#include "trainers/device/graph.h"
#include "trainers/input/batch.h"
#include "trainers/input/micro_batch_source.h"
#include "trainers/membership/membership.h"
#include "trainers/run/data_arrival.h"
#include "trainers/run/identity.h"
#include "trainers/run/options.h"
#include "trainers/run/report.h"
#include "trainers/run/run_files.h"
#include "trainers/step/fault_plan.h"
#include "trainers/step/task.h"
#include "trainers/step/train_state.h"

namespace mtrun::trainers {

/// The references outlive the run.
struct TrainInputs {
  const std::string& program;  // its name
  const TrainOptions& options;
  const datasets::PackedSplit& train;
  const datasets::PackedSplit& test;  // evaluated after each epoch, and what the best one is chosen by
  Task& task;
  BatchOptions batch;
  std::optional<BatchOptions> test_batch = {};  // nothing: as `batch`
  Precision precision = Precision::kFp32;
  GraphFactory graphs = nullptr;  // --graph
  /// Images that the best weights are tested with, once, when the run is complete; null: those of `test`
  /// serve.
  const datasets::PackedSplit* final_test = nullptr;
  std::map<std::string, std::string> metadata = {};  // of files with weights
  RunIdentity identity;                              // what members and restarts must agree on
  std::string settings;                              // config.yaml
  std::string environment = {};                      // environment.json, "": none
  std::string agent = {};                            // whose worker this is (fresh_start.h), "": nobody's
  /// For people, where the run begins or continues from a checkpoint; `columns`: of their screen, 0: there is
  /// none. Null: nothing.
  std::function<std::string(int columns)> greeting = nullptr;
  FaultPlan* faults = nullptr;  // null: none are planned
  /// Stands between the run's source and its steps, null: nothing of the kind. For tests of workers that
  /// gather other samples than theirs.
  std::function<std::unique_ptr<MicroBatchSource>(MicroBatchSource& source)> step_source = nullptr;
  /// Makes `preview.png` in the model_folder for the curves and the report; its path. Null: none.
  std::function<absl::StatusOr<std::string>()> preview = nullptr;
  /// How whoever saves the last state before it goes waits for its turn. For tests of file systems without
  /// locks.
  std::function<absl::StatusOr<UniqueFd>(const std::string& folder)> lock_folder = LockFolder;
  Duration grace = {};             // from a polite signal to SIGKILL, zero: unknown
  Duration pace = {};              // a step, or a batch of an evaluation, lasts at least so long: for tests
  Duration data_wait = {};         // that this worker has waited for its data before the run
  DataArrival* arrival = nullptr;  // of what is still to come; null: all images are there
  /// On the writer of the run's files, when the run is complete and before anybody is done: weights and
  /// report.
  std::function<absl::Status(const TrainState&, const RunReport&)> finish;
};

/// What stands between the source and the steps, null for nothing: where there is a GPU, making a batch in
/// host memory and computing take different processors.
std::unique_ptr<MicroBatchSource> MakeStepSource(MicroBatchSource& source, const TrainInputs& in);

/// How the run's state is trained.
TrainState::Options StateOptions(const TrainInputs& in);

/// Of a run that has not been evaluated yet.
RunReport EmptyReport(const TrainInputs& in);

/// How the run's files are kept. `sample_ids` is the digest of a step's samples; `still_here` is called while
/// the disk is full. All references outlive the files.
RunFiles::Options FilesOptions(const TrainInputs& in, const Membership& membership,
                               std::function<std::string(int64_t step)> sample_ids,
                               std::function<void()> still_here);

}  // namespace mtrun::trainers
