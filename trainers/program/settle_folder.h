// The folder of a run: what it continues from, and the next free folder for a second experiment.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "trainers/checkpoints/run_state.h"
#include "trainers/program/data.h"
#include "trainers/program/run_setup.h"

namespace mtrun::trainers {

/// Returns the state of the checkpoint that the run would continue from, if there is one.
std::optional<checkpoints::RunState> ContinuedState(const Run& run);

/// Returns kFailedPrecondition, with the differences, if the folder's newest checkpoint is of another run.
/// `draws`: the task draws random numbers; if false, their version is not compared.
absl::Status CheckContinued(const Run& run, const RunData& data, bool draws);

/// Gives the run a folder of its own if --model_folder was not given and the default one, runs/NAME, has a
/// checkpoint of another run: the first of runs/NAME-2, runs/NAME-3, ... without a checkpoint, or with one of
/// this run. Reads again what depends on the folder. REQUIRES: ReadRun; run.resolved is not set yet.
absl::Status SettleFolder(Run& run, const RunData& data);

}  // namespace mtrun::trainers
