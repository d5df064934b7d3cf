// What an import does to each image: turning, cutting, resizing, encoding. Values; pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "datasets/encoded_shard.h"
#include "datasets/images/image.h"

namespace mtrun::datasets {

/// At most one of `stretch`, `centre` and the two sides is given (CheckRules).
struct ImageRules {
  std::optional<ImageSize> stretch = std::nullopt;  // to this size, whatever the shape
  std::optional<ImageSize> centre = std::nullopt;   // the middle in this shape, resized to this size
  int short_side = 0, max_side = 0;  // larger images are made smaller, keeping their shape; 0: any size
  int quality = 90;                  // of JPEGs that are encoded again
  bool exif = false;                 // turned as the camera says
  DecodeLimits limits = {};
  /// The size of every image, where the rules fix it.
  std::optional<ImageSize> fixed_size() const { return stretch ? stretch : centre; }
  /// One line, equal for equal rules.
  std::string Describe() const;
};

/// kInvalidArgument names the flags that do not go together.
absl::Status CheckRules(const ImageRules& rules);

/// `image` cut and resized, without what `exif` asks for.
RgbImage FitImage(RgbImage image, const ImageRules& rules);

/// Decodes a file of any kind that this build reads, turns, cuts and resizes it. Errors as DecodeAnyImage.
absl::StatusOr<RgbImage> DecodeFitted(std::string_view file, const ImageRules& rules);

/// A JPEG or PNG that the rules leave as it is keeps its bytes. What they change is encoded again, and so are
/// other kinds: PNG, BMP and TIFF as PNG, the others as JPEG. Every image is decoded, so that a bad one is
/// found. Errors as DecodeAnyImage.
absl::StatusOr<Record> MakeRecord(std::string file, const ImageRules& rules);

}  // namespace mtrun::datasets
