// Random placements of training images. Pure functions of a stream of random numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "trainers/random/random_stream.h"

namespace mtrun::trainers {

/// How one image is laid onto the network's square.
struct Placement {
  int dx = 0, dy = 0;  // columns and rows that the cut window moves right and down
  bool flip = false;   // mirrored left to right, before the cut
  bool operator==(const Placement&) const = default;
};

struct Augmentation {
  bool flip = false;     // each image with probability 0.5
  int crop_padding = 0;  // the window moves by up to this many pixels; what it uncovers is black
  bool any() const { return flip || crop_padding > 0; }
};

/// One placement per image, drawn from `stream`: the same for a micro-batch whoever computes it.
std::vector<Placement> DrawPlacements(const Augmentation& augmentation, const RandomStream& stream,
                                      int64_t images);

}  // namespace mtrun::trainers
