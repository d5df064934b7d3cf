#include "trainers/input/placement.h"

namespace mtrun::trainers {

std::vector<Placement> DrawPlacements(const Augmentation& augmentation, const RandomStream& stream,
                                      int64_t images) {
  std::vector<Placement> placements(images);
  const auto positions = static_cast<uint32_t>(2 * augmentation.crop_padding + 1);
  for (int64_t i = 0; i < images; ++i) {
    Placement& p = placements[i];
    p.flip = augmentation.flip && stream.Uniform(3 * i) < 0.5;
    p.dx = static_cast<int>(stream.Below(3 * i + 1, positions)) - augmentation.crop_padding;
    p.dy = static_cast<int>(stream.Below(3 * i + 2, positions)) - augmentation.crop_padding;
  }
  return placements;
}

}  // namespace mtrun::trainers
