// What a training program does with a trained network instead of training.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "trainers/program/run_setup.h"

namespace mtrun::trainers {

/// Exit status of --evaluate, --predict or --export; nothing where none is asked for. The settings have been
/// read, membership and options have not.
std::optional<absl::StatusOr<int>> RunMode(Run& run);

/// --evaluate: alone or with the other workers of a job; the figures are the same to the last digits of
/// float64.
absl::StatusOr<int> EvaluateMode(Run& run);
/// --predict: one worker.
absl::StatusOr<int> PredictMode(Run& run);
/// --export: one worker.
absl::StatusOr<int> ExportMode(Run& run);

}  // namespace mtrun::trainers
