// Makes the network of a run, gives it its first weights and moves it to its device.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "trainers/input/batch.h"
#include "trainers/program/program.h"
#include "trainers/tasks/classifier.h"

namespace mtrun::trainers {

/// Returns what the options of all trainers say of a classifier's training.
ClassifierOptions ClassifierOptionsOf(const TaskInputs& inputs);

/// Returns kInvalidArgument if weights do not fit, or for --sync_bn without batch normalisation.
absl::StatusOr<std::unique_ptr<Task>> MakeTask(const Program& program, const TaskInputs& inputs,
                                               const BatchOptions& batch);

}  // namespace mtrun::trainers
