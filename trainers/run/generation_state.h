// What belongs to one generation of a run, and is made again in the next: its gradients' buckets and hooks,
// and the step that uses them. Not thread-safe.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "trainers/collectives/cpu_group.h"
#include "trainers/input/micro_batch_source.h"
#include "trainers/parallel/data_parallel.h"
#include "trainers/run/train_inputs.h"
#include "trainers/step/train_state.h"
#include "trainers/step/train_step.h"

namespace mtrun::trainers {

struct GenerationState {
  /// All references must outlive this; `group` is null in a world of one, `may_commit` is TrainStep's.
  GenerationState(const TrainInputs& in, MicroBatchSource& source, TrainState& state,
                  const collectives::ProcessGroup& group, std::function<absl::Status()> may_commit,
                  RefusedSums& refused);

  DataParallel data_parallel;
  TrainStep runner;
};

}  // namespace mtrun::trainers
