// What a file with weights says of itself (docs/formats.md): enough to make the network again and to give it
// images as it was given in training. Pure values, free of LibTorch.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "datasets/images/image.h"

namespace mtrun::trainers {

struct Description {
  std::string program = {};
  std::vector<std::string> classes = {};
  int image_size = 0;                   // pixels a side that the network computes with
  int input_size = 0;                   // and that it is given: it may enlarge them itself
  int data_height = 0, data_width = 0;  // of the training images, of the largest ones where they differ
  bool data_varies = false;             // in size
  bool data_pixels = false;             // they are kept as pixels, and larger ones resized whole
  double part = 1;                      // of the shorter side of test images, that is shown
  std::map<std::string, std::string> settings = {};  // the program's own, which network and images depend on
  bool operator==(const Description&) const = default;

  /// Whether images are taken as they are; else they are resized.
  bool whole() const { return !data_varies && data_height <= input_size && data_width <= input_size; }
  /// Whether a square is cut out of each; else it is shown in the training images' shape.
  bool cut() const { return !whole() && !data_pixels; }
  /// The part of an image of any size that is shown: of test images what an evaluation shows of them.
  datasets::ImageBox Shown(const datasets::ImageSize& image) const;
  /// Whose proportions that has, where it is not a `part`.
  datasets::ImageSize shape() const;
  /// What an image of any size is resized to before it is centred on black: the size of the training images,
  /// or that of the input where they were larger or differed.
  datasets::ImageSize target() const;
};

/// How bytes become the network's numbers.
inline constexpr char kPixelRule[] = "(x / 255 - 0.5) / 0.5, RGB";

std::map<std::string, std::string> ToMetadata(const Description& description);
/// kNotFound: the file says nothing of the kind, as those of earlier releases; kInvalidArgument: it is
/// malformed.
absl::StatusOr<Description> DescriptionOf(const std::map<std::string, std::string>& metadata);

}  // namespace mtrun::trainers
