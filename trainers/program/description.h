// Description of a network in the metadata of its weights file (docs/formats.md): enough to rebuild the
// network and to give it images as in training. Pure values, independent of LibTorch.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/images/image.h"
#include "datasets/packed/index.h"
#include "trainers/program/data.h"

namespace mtrun::trainers {

struct Description {
  std::string program = {};
  std::vector<std::string> classes = {};
  int image_size = 0;      // side in pixels that the network computes with
  int input_size = 0;      // side of its input images, which it can enlarge itself
  ImageShape images = {};  // the training images; pixels that are larger than input_size are resized whole
  double part = 1;         // shown part of the shorter side of test images
  std::map<std::string, std::string> settings = {};  // of the program, if the network or its images need them
  bool operator==(const Description&) const = default;

  /// Returns whether images are turned as their files say: unless the training images were not.
  bool turns() const { return images.orientation != datasets::kAsStored; }
  /// Returns whether images are used as they are instead of being resized.
  bool whole() const { return !images.varies && images.height <= input_size && images.width <= input_size; }
  /// Returns whether a square is cut out of each image. If not, the training images' shape is.
  bool cut() const { return !whole() && !images.pixels; }
  /// Returns the part of an image of any size that is shown. For test images, evaluation shows the same part.
  datasets::ImageBox Shown(const datasets::ImageSize& image) const;
  /// Returns a size with the proportions of that part, if it is not a square of side `part`.
  datasets::ImageSize shape() const;
  /// Returns the size that images are resized to before they are centred on black. It is the size of the
  /// training images, or the input size if those were larger or differed.
  datasets::ImageSize target() const;
};

/// Conversion of bytes to the network's numbers.
inline constexpr char kPixelRule[] = "(x / 255 - 0.5) / 0.5, RGB";

std::map<std::string, std::string> ToMetadata(const Description& description);
/// Returns kNotFound if the metadata has no description, as in files of earlier releases, and
/// kInvalidArgument if it is malformed.
absl::StatusOr<Description> DescriptionOf(const std::map<std::string, std::string>& metadata);

}  // namespace mtrun::trainers
