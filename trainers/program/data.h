// The images that a run trains on and is evaluated with.
#pragma once

#include <algorithm>
#include <string>

#include "absl/status/statusor.h"
#include "datasets/packed.h"
#include "datasets/sampler.h"

namespace mtrun::trainers {

struct RunData {
  datasets::PackedSplit train, test;

  /// Of the largest images, in pixels.
  int height() const { return std::max(train.height(), test.height()); }
  int width() const { return std::max(train.width(), test.width()); }
  /// Whether images differ in size.
  bool varies() const { return train.varies() || test.varies(); }
};

/// kInvalidArgument where the order needs counts of more shards than a ledger's first line holds.
absl::Status CheckOrder(datasets::Shuffle shuffle, const datasets::PackedSplit& train);

/// The images to train on and to evaluate with, of the packed set in `folder`: its test split, or without one
/// its val split, or without both the training images, unless the program `needs_test`. kInvalidArgument for
/// a split without images.
absl::StatusOr<RunData> OpenData(const std::string& folder, bool needs_test);

}  // namespace mtrun::trainers
