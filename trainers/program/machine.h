// Detects what LibTorch finds on this machine, and sets it up for a run.
#pragma once

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "base/worker_env.h"
#include "trainers/membership/assignment.h"
#include "trainers/program/data.h"
#include "trainers/program/resolve_run.h"
#include "trainers/run/rules/options.h"

namespace mtrun::trainers {

/// Makes malloc keep freed memory, because the next step needs it again: returning it would cost page faults.
void KeepFreedMemory();

MachineFacts FindMachine(const TrainOptions& options, const EnvironmentMap& environment,
                         const Assignment& assignment, const ImageShape& images);

/// Sets the number of threads, and for a GPU the current device and the fast paths of its libraries.
absl::StatusOr<at::Device> UseMachine(const ResolvedRun& run, const TrainOptions& options);

/// Decides whether all images, at the sizes in which `run` reads them, are kept on the device.
absl::StatusOr<Residency> ResolveResidency(const TrainOptions& options, const RunData& data,
                                           const ResolvedRun& run, at::Device device);

}  // namespace mtrun::trainers
