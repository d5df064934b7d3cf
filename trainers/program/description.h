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
  std::string program;
  std::vector<std::string> classes;
  int image_size = 0;                   // pixels a side that the network computes with
  int input_size = 0;                   // and that it is given: it may enlarge them itself
  int data_height = 0, data_width = 0;  // of the training images, of the largest ones where they differ
  bool data_varies = false;             // in size
  bool operator==(const Description&) const = default;

  /// Whether images are taken as they are; else the square in the middle of each is.
  bool whole() const { return !data_varies && data_height <= input_size && data_width <= input_size; }
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
