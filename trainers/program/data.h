// Images that a run trains on and is evaluated with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/order/sampler.h"
#include "datasets/packed/packed.h"

namespace mtrun::trainers {

/// Height and width of the largest images, whether sizes differ, and whether they are pixels and not files.
struct ImageShape {
  int height = 0, width = 0;
  bool varies = false, pixels = false;
  std::string orientation = {};  // datasets::Index::orientation
  bool operator==(const ImageShape&) const = default;
};
ImageShape ShapeOf(const datasets::PackedSplit& split);

struct RunData {
  datasets::PackedSplit train, test;                               // `test` is evaluated after each epoch
  std::optional<datasets::PackedSplit> final_test = std::nullopt;  // tested once, after training
  bool arrives = false;                                            // shards are still arriving
  bool stays = true;  // the cache has room for the whole set at once

  /// Returns the shape of the largest images of all splits.
  ImageShape shape() const;
  /// Returns the splits that exist, train first.
  std::vector<datasets::PackedSplit*> splits();
};

/// Opens the packed set in `folder`. The val split is evaluated after each epoch and the test split after
/// training. If `validation_share` > 0, that share of the training images is kept back as the val split. If
/// only one of the two splits exists, it is evaluated after each epoch. If neither does, the training images
/// are, unless the program `needs_test`. Returns kInvalidArgument if a split has no images.
absl::StatusOr<RunData> OpenData(const std::string& folder, bool needs_test, double validation_share = 0);
/// Does the same if shards are still arriving: opens splits by their index and keeps no images back.
absl::StatusOr<RunData> OpenArrivingData(const std::string& folder, bool needs_test);

/// Opens the test split, or val if there is none, to evaluate a trained network.
absl::StatusOr<datasets::PackedSplit> OpenTest(const std::string& folder);

/// Indices of a split's images: `share` of each class is kept back, spread evenly over the split. At least
/// one image of a class of two or more is kept back. A pure function of the labels.
struct Shares {
  std::vector<int64_t> kept_back, others;
};
Shares KeepBack(const datasets::PackedSplit& split, double share);

/// Returns kInvalidArgument if the order needs counts of more shards than fit on a ledger's first line.
absl::Status CheckOrder(datasets::Shuffle shuffle, const datasets::PackedSplit& train);

}  // namespace mtrun::trainers
