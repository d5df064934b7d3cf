// Small packed data sets made by the test.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "datasets/packed.h"

namespace mtrun::trainers::testing {

/// Value of a channel of a pixel of an image of class `label`.
using Pixel = std::function<uint8_t(int64_t image, int64_t label, int y, int x, int channel)>;

struct SetShape {
  int height = 32, width = 32, classes = 10;
  int64_t train = 100, test = 40;
};

/// Writes `<folder>/<name>` with splits train and test, labels i mod classes; returns its path. Fails the
/// test on an error.
std::string WritePackedSet(const std::string& folder, const std::string& name, const SetShape& shape,
                           const Pixel& pixel);

/// The same with labels of the caller's.
std::string WritePackedImages(const std::string& folder, const std::string& name, const SetShape& shape,
                              const std::function<int64_t(int64_t image)>& label, const Pixel& pixel);

/// Every byte differs from its neighbours and from the other images' at its place.
uint8_t VariedPixel(int64_t image, int64_t label, int y, int x, int channel);

/// Images that a network can learn within a few steps: each class has its own bright square, over noise.
uint8_t LearnablePixel(int64_t image, int64_t label, int y, int x, int channel);

}  // namespace mtrun::trainers::testing
