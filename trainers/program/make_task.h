// The network of a run: made, given its first weights and moved to where it computes.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "trainers/input/batch.h"
#include "trainers/program/program.h"

namespace mtrun::trainers {

/// kInvalidArgument for weights that do not fit, and for --sync_bn in a network that does not normalise over
/// batches.
absl::StatusOr<std::unique_ptr<Task>> MakeTask(const Program& program, const TaskInputs& inputs,
                                               const BatchOptions& batch);

}  // namespace mtrun::trainers
