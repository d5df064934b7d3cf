// Small packed data sets created by the test.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "datasets/packed/packed.h"

namespace mtrun::trainers::testing {

/// Returns the value of a channel of a pixel of an image of class `label`.
using Pixel = std::function<uint8_t(int64_t image, int64_t label, int y, int x, int channel)>;

struct SetShape {
  int height = 32, width = 32, classes = 10;
  int64_t train = 100, test = 40;
};

/// Writes `<folder>/<name>` with labels i mod classes and returns its path. Fails the test on an error.
std::string WritePackedSet(const std::string& folder, const std::string& name, const SetShape& shape,
                           const Pixel& pixel);

/// Likewise, with the caller's labels.
std::string WritePackedImages(const std::string& folder, const std::string& name, const SetShape& shape,
                              const std::function<int64_t(int64_t image)>& label, const Pixel& pixel);

/// Returns bytes that differ from their neighbours and from the other images' bytes at the same position.
uint8_t VariedPixel(int64_t image, int64_t label, int y, int x, int channel);

/// Returns images that are learnable within a few steps: each class has a bright square, over noise.
uint8_t LearnablePixel(int64_t image, int64_t label, int y, int x, int channel);

}  // namespace mtrun::trainers::testing
