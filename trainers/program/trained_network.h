// A network with weights from a given path, ready to compute.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "trainers/program/description.h"
#include "trainers/program/run_setup.h"
#include "trainers/program/weights_source.h"

namespace mtrun::trainers {

struct TrainedNetwork {
  WeightsSource source;
  Description description;
  BatchOptions batch;
  std::unique_ptr<Task> task;
};

/// Finds the weights at `path` and reads the settings that go with them into `run`.
absl::StatusOr<WeightsSource> OpenSource(Run& run, const std::string& path);

/// Makes the network of `source` for images of `shape` and these classes.
absl::StatusOr<TrainedNetwork> MakeTrained(Run& run, const WeightsSource& source, const ImageShape& shape,
                                           const std::vector<std::string>& classes);

/// Does both for the weights of --weights_of, else of the model_folder, and images like the training images.
/// The weights file describes these; if an earlier release wrote it, --data does.
absl::StatusOr<TrainedNetwork> OpenTrained(Run& run);

}  // namespace mtrun::trainers
