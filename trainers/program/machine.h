// What LibTorch finds on this machine, and setting it up for a run.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "base/worker_env.h"
#include "trainers/membership/assignment.h"
#include "trainers/program/data.h"
#include "trainers/program/resolve_run.h"
#include "trainers/run/options.h"

namespace mtrun::trainers {

/// A step frees what the next one needs again: freed memory is kept instead of handed back and faulted in
/// again.
void KeepFreedMemory();

MachineFacts FindMachine(const TrainOptions& options, const EnvironmentMap& environment,
                         const Assignment& assignment, const ImageShape& images);

/// Threads, and the current device with the fast paths of its libraries.
absl::StatusOr<at::Device> UseMachine(const ResolvedRun& run, const TrainOptions& options);

/// Whether all images, of the sizes in which `run` reads them, go to the device.
absl::StatusOr<Residency> ResolveResidency(const TrainOptions& options, const RunData& data,
                                           const ResolvedRun& run, at::Device device);

}  // namespace mtrun::trainers
