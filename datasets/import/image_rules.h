// How an import transforms each image: turning, cropping, resizing, encoding. Values; pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "datasets/images/image.h"
#include "datasets/packed/encoded_shard.h"
#include "datasets/packed/index.h"

namespace mtrun::datasets {

/// REQUIRES: at most one of `stretch`, `centre` and the two sides is set (CheckRules).
struct ImageRules {
  std::optional<ImageSize> stretch = std::nullopt;  // to this size, ignoring the aspect ratio
  std::optional<ImageSize> centre = std::nullopt;   // the middle with this aspect ratio, resized to this size
  int short_side = 0, max_side = 0;  // reduce larger images, keeping their aspect ratio; 0: no limit
  int quality = 90;                  // of JPEGs that are encoded again
  bool exif = true;                  // turn as the file's orientation says
  DecodeLimits limits = {};
  /// The size of every image, if the rules fix it.
  std::optional<ImageSize> fixed_size() const { return stretch ? stretch : centre; }
  /// Returns one line; equal for equal rules.
  std::string Describe() const;
  /// Returns the value of Index::orientation for images that these rules made.
  const char* orientation() const { return exif ? kTurnedUpright : kAsStored; }
};

/// kInvalidArgument names the flags that cannot be combined.
absl::Status CheckRules(const ImageRules& rules);

/// Crops and resizes `image`; ignores `exif`.
RgbImage FitImage(RgbImage image, const ImageRules& rules);

/// Decodes a file of any readable format, turns, crops and resizes it. Sets `oriented`, if given, to whether
/// the file says that its pixels are not upright. Errors as for DecodeAnyImage.
absl::StatusOr<RgbImage> DecodeFitted(std::string_view file, const ImageRules& rules,
                                      bool* oriented = nullptr);

/// Makes a record. A JPEG or PNG that the rules do not change keeps its bytes; other images are encoded
/// again: PNG, BMP and TIFF as PNG, the rest as JPEG. Decodes every image, so that a bad one is detected.
/// Errors as for DecodeAnyImage.
absl::StatusOr<Record> MakeRecord(std::string file, const ImageRules& rules);

}  // namespace mtrun::datasets
