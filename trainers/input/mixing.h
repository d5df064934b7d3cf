// MixUp (Zhang et al. 2018) and CutMix (Yun et al. 2019): each image of a micro-batch is mixed with the one
// before it, as in torchvision's references, and so are their labels. The decisions, which are numbers; see
// trainers/tasks/mixed_images.h. Does not depend on LibTorch.
#pragma once

#include "trainers/random/random_stream.h"

namespace mtrun::trainers {

/// Parameters a of Beta(a, a), the distribution of the share that an image keeps; 0: off. If both are on, each
/// micro-batch takes one of them at random.
struct Mixing {
  double mixup = 0, cutmix = 0;
  bool any() const { return mixup > 0 || cutmix > 0; }
  bool operator==(const Mixing&) const = default;
};
inline constexpr double kMinBeta = 0.01, kMaxBeta = 1;

struct MixingDraw {
  bool cut = false;     // CutMix, otherwise MixUp
  float kept = 1;       // MixUp: share of the image itself
  float x = 0, y = 0;   // CutMix: middle of the box, in fractions of the sides ...
  float half_side = 0;  // ... and half its side: sqrt(1 - share) / 2 (before it is cut at the edges)
  bool operator==(const MixingDraw&) const = default;
};

/// REQUIRES: mixing.any(), its parameters between kMinBeta and kMaxBeta.
MixingDraw DrawMixing(const Mixing& mixing, const RandomStream& stream);

}  // namespace mtrun::trainers
