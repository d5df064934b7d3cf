// --preview: the first training images as the network would get them.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "datasets/packed/packed.h"
#include "trainers/input/batch.h"
#include "trainers/run/rules/options.h"

namespace mtrun::trainers {

/// Writes options.preview images of the run's first steps to preview.png in the run folder.
absl::Status WritePreview(const TrainOptions& options, const datasets::PackedSplit& train,
                          const BatchOptions& batch);

/// Writes a few of them to preview.png, for every run. Returns its path.
absl::StatusOr<std::string> DrawPreview(const TrainOptions& options, const datasets::PackedSplit& train,
                                        BatchOptions batch);

}  // namespace mtrun::trainers
