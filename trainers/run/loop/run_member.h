// One member's part in a run: the state that it holds, its files, and the rules by which it acts. TrainLoop,
// GenerationEntry and RunEnd share it. Training thread only.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "base/clock.h"
#include "trainers/input/dataset_source.h"
#include "trainers/membership/membership.h"
#include "trainers/run/files/run_files.h"
#include "trainers/run/loop/lease_wait.h"
#include "trainers/run/loop/run_replica.h"
#include "trainers/run/loop/train_inputs.h"
#include "trainers/run/records/progress.h"
#include "trainers/run/records/report.h"
#include "trainers/run/rules/lifecycle.h"
#include "trainers/run/rules/run_length.h"
#include "trainers/step/notable_images.h"
#include "trainers/step/train_state.h"

namespace mtrun::trainers {

struct RunMember {
  /// All references must outlive this. `start`: when the program began.
  RunMember(const TrainInputs& inputs, Membership& membership, ProgressLine& progress, TimePoint start);
  RunMember(const RunMember&) = delete;

  /// Returns the number of finished steps.
  int64_t steps() const { return replica.position().steps; }
  /// Returns the report of the run so far; its test results are those of the last evaluation.
  RunReport Report() const;
  /// Returns the state of the run for files that are opened now.
  RunFiles::Start FilesStart() const;
  /// Submits a checkpoint of the state. REQUIRES: files.saves().
  absl::Status Save();
  /// Returns once all members of the generation have called it. Collective.
  absl::Status Barrier() const;
  /// Reports that this worker is slow, but not hung.
  void StillHere();
  /// Fires the fault that is planned for this place and step, if any.
  void Reach(Fault::At at);

  const TrainInputs in;
  Membership& membership;
  ProgressLine& progress;
  DatasetSource source;
  const RunLength length;
  const LrSchedule schedule;
  TrainState state;
  RunReplica replica;
  Lifecycle lifecycle;
  LeaseWait lease;
  RunFiles files;
  NotableImages notable;      // of the last evaluation that this process took part in, ...
  int64_t notable_after = 0;  // ... after this many steps
};

/// Returns how the run's state is trained.
TrainState::Options StateOptions(const TrainInputs& in);

}  // namespace mtrun::trainers
