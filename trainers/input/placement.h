// Random placements of training images. Pure functions of a stream of random numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "trainers/random/random_stream.h"

namespace mtrun::trainers {

/// Position of one image on the network's square.
struct Placement {
  int dx = 0, dy = 0;  // columns and rows by which the cut window moves right and down
  bool flip = false;   // mirrored left to right, before the cut
  bool operator==(const Placement&) const = default;
};

struct Augmentation {
  bool flip = false;     // each image with probability 0.5
  int crop_padding = 0;  // the window moves by up to this many pixels; uncovered pixels are black
  bool any() const { return flip || crop_padding > 0; }
};

/// Draws one placement per image from `stream`, independent of the worker that computes the micro-batch.
std::vector<Placement> DrawPlacements(const Augmentation& augmentation, const RandomStream& stream,
                                      int64_t images);

}  // namespace mtrun::trainers
