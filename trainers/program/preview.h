// --preview: the first training images as the network would get them.
#pragma once

#include "absl/status/status.h"
#include "datasets/packed.h"
#include "trainers/input/batch.h"
#include "trainers/run/options.h"

namespace mtrun::trainers {

/// Writes options.preview images of the run's first steps to preview.png in the run folder.
absl::Status WritePreview(const TrainOptions& options, const datasets::PackedSplit& train,
                          const BatchOptions& batch);

}  // namespace mtrun::trainers
