// Uses of a trained network other than training: --evaluate, --predict, --export.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "trainers/program/run_setup.h"

namespace mtrun::trainers {

/// Returns the exit status of --evaluate, --predict or --export, or nullopt if none was given. Called after
/// the settings have been read, and before membership and options are.
std::optional<absl::StatusOr<int>> RunMode(Run& run);

/// Runs --evaluate alone or with the other workers of a job. The figures agree to the last digits of float64.
absl::StatusOr<int> EvaluateMode(Run& run);
/// Runs --predict in one worker.
absl::StatusOr<int> PredictMode(Run& run);
/// Runs --export in one worker.
absl::StatusOr<int> ExportMode(Run& run);

}  // namespace mtrun::trainers
