// The images that a run trains on and is evaluated with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/packed.h"
#include "datasets/sampler.h"

namespace mtrun::trainers {

/// Of images: the height and width of the largest ones, whether they differ in size, and whether they are
/// kept as pixels, not as files.
struct ImageShape {
  int height = 0, width = 0;
  bool varies = false, pixels = false;
};
ImageShape ShapeOf(const datasets::PackedSplit& split);

struct RunData {
  datasets::PackedSplit train, test;                               // `test`: evaluated after each epoch
  std::optional<datasets::PackedSplit> final_test = std::nullopt;  // tested once, when all is trained
  bool arrives = false;                                            // shards are still to come
  bool stays = true;  // the cache has room for all of it at a time

  /// Of the largest images.
  ImageShape shape() const;
  /// Those there are, train first.
  std::vector<datasets::PackedSplit*> splits();
};

/// The images to train on and to evaluate with, of the packed set in `folder`. After each epoch its val split
/// is evaluated, or the `validation_share` of its training images that is kept back, and its test split is
/// for the end; without either its test split, or without one the training images, unless the program
/// `needs_test`. kInvalidArgument for a split without images.
absl::StatusOr<RunData> OpenData(const std::string& folder, bool needs_test, double validation_share = 0);
/// The same where shards are still to come: splits opened by their index, none kept back.
absl::StatusOr<RunData> OpenArrivingData(const std::string& folder, bool needs_test);

/// Images to evaluate a trained network with: the test split, or without one val.
absl::StatusOr<datasets::PackedSplit> OpenTest(const std::string& folder);

/// Of each class `share` of the images, spread over the split: those kept back, and the others. A pure
/// function of the labels. At least one of a class of two or more.
struct Shares {
  std::vector<int64_t> kept_back, others;
};
Shares KeepBack(const datasets::PackedSplit& split, double share);

/// kInvalidArgument where the order needs counts of more shards than a ledger's first line holds.
absl::Status CheckOrder(datasets::Shuffle shuffle, const datasets::PackedSplit& train);

}  // namespace mtrun::trainers
