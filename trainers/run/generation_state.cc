#include "trainers/run/generation_state.h"

#include <utility>

namespace mtrun::trainers {

GenerationState::GenerationState(const TrainInputs& in, MicroBatchSource& source, TrainState& state,
                                 const collectives::ProcessGroup& group,
                                 std::function<absl::Status()> may_commit, RefusedSums& refused)
    : data_parallel(state.trained(), group, DataParallel::kDefaultBucketBytes,
                    in.graphs ? DataParallel::Gradients::kFixed : DataParallel::Gradients::kFree),
      runner(in.task, source, data_parallel, state,
             {.seed = in.options.seed,
              .precision = in.precision,
              .sync_micro_batches = in.options.sync_micro_batches,
              .faults = in.faults,
              .graphs = in.graphs,
              .may_commit = std::move(may_commit),
              .refused = &refused}) {}

}  // namespace mtrun::trainers
