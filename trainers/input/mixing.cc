#include "trainers/input/mixing.h"

#include <cmath>

namespace mtrun::trainers {
namespace {

// Words of the stream: choice, x, y, and two for each attempt to draw a share.
constexpr uint64_t kChoiceWord = 0, kXWord = 1, kYWord = 2, kShareWord = 3;
constexpr int kShareAttempts = 64;  // each fails with a probability of at most 1/2

/// Draws from Beta(a, a) (Johnk 1964). Rounded, so that no library's last digits matter.
double DrawShare(double a, const RandomStream& stream) {
  for (uint64_t k = 0; k < kShareAttempts; ++k) {
    const double u = std::pow(stream.Uniform(kShareWord + 2 * k), 1 / a);
    const double v = std::pow(stream.Uniform(kShareWord + 2 * k + 1), 1 / a);
    if (u + v > 0 && u + v <= 1) return std::round(u / (u + v) * 65536) / 65536;
  }
  return 1;  // both powers are too small for a double: the share is almost 0 or 1
}

}  // namespace

MixingDraw DrawMixing(const Mixing& mixing, const RandomStream& stream) {
  const bool both = mixing.mixup > 0 && mixing.cutmix > 0;
  MixingDraw draw{.cut = both ? stream.Uniform(kChoiceWord) < 0.5 : mixing.cutmix > 0};
  const double share = DrawShare(draw.cut ? mixing.cutmix : mixing.mixup, stream);
  if (!draw.cut) {
    draw.kept = static_cast<float>(share);
    return draw;
  }
  draw.x = static_cast<float>(stream.Uniform(kXWord));
  draw.y = static_cast<float>(stream.Uniform(kYWord));
  draw.half_side = static_cast<float>(std::sqrt(1 - share) / 2);
  return draw;
}

}  // namespace mtrun::trainers
