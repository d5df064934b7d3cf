#include "datasets/images/jpeg_crop.h"

#include <algorithm>
#include <array>
#include <memory>

#include "datasets/images/jpeg.h"
#include "datasets/images/jpeg_library.h"
#include "datasets/images/jpeg_planes.h"
#include "datasets/images/plane_blend.h"
#include "datasets/images/triangle_kernel.h"

namespace mtrun::datasets {
namespace {

/// How the samples of a component become pixels of the result.
struct Resampling {
  int eighths = 8;
  ShortKernel columns, rows;
};

/// Returns the samples that a component has on one side, 1 / factor of the image's.
int StoredSamples(JDIMENSION side, int factor, int eighths) {
  return static_cast<int>((int64_t{side} * eighths + 8 * factor - 1) / (8 * factor));
}

/// Returns the resampling of all components. Like libjpeg, it takes a larger fraction of colours of lower
/// resolution, rather than doubling them, if that suffices in both directions, and doubles without smoothing
/// what is tiny.
std::array<Resampling, 3> Resamplings(const jpeg_decompress_struct& library, int eighths, const ImageBox& box,
                                      const ImageSize& target) {
  const Kernel columns =
      TriangleKernel(int64_t{box.left} * eighths, int64_t{box.width} * eighths, target.width);
  const Kernel rows =
      TriangleKernel(int64_t{box.top} * eighths, int64_t{box.height} * eighths, target.height);
  const int across = library.max_h_samp_factor, down = library.max_v_samp_factor;
  const bool larger = across == 2 && down == 2 && eighths < 8;
  const int colour_eighths = larger ? 2 * eighths : eighths;
  const int wide = StoredSamples(library.image_width, across, colour_eighths);
  const int high = StoredSamples(library.image_height, down, colour_eighths);
  const bool smooth = eighths > 1 && (across == 1 || wide > 2);
  const auto doubling = [&](int factor, int stored) {
    const bool doubled = factor == 2 && !larger;
    return Doubling{.doubled = doubled, .smooth = doubled && smooth, .stored = stored};
  };
  const Resampling brightness{eighths, Compose(columns, {}), Compose(rows, {})};
  const Resampling colour{colour_eighths, Compose(columns, doubling(across, wide)),
                          Compose(rows, doubling(down, high))};
  return {brightness, colour, colour};
}

/// A plane as wide as the result, row after row.
struct NarrowPlane {
  std::unique_ptr<uint8_t[]> samples;
  ptrdiff_t stride = 0;
};

NarrowPlane ResizeColumns(const Plane& plane, const Resampling& by, int width) {
  const int rows = RoundUpToLanes(by.rows.last - by.rows.first);
  NarrowPlane out;
  out.stride = RoundUpToLanes(width);
  out.samples = std::make_unique_for_overwrite<uint8_t[]>(static_cast<size_t>(out.stride) * rows);
  const auto strip = std::make_unique<uint8_t[]>(static_cast<size_t>(kLanes) * rows);
  for (int x = 0; x < width; x += kLanes) {
    for (int i = 0; i < std::min(kLanes, width - x); ++i) {
      const Taps& taps = by.columns.taps[x + i];
      BlendLines({.first = plane.at(taps.first, by.rows.first),
                  .stride = plane.stride,
                  .weights = by.columns.weights_of(taps),
                  .count = taps.count},
                 rows, strip.get() + static_cast<ptrdiff_t>(i) * rows);
    }
    TransposeLanes(strip.get(), rows, rows, out.samples.get() + x, out.stride);
  }
  return out;
}

}  // namespace

std::optional<RgbImage> DecodeJpegCrop(std::string_view file, const ImageBox& box, const ImageSize& target,
                                       const DecodeLimits& limits) {
  if (!IsJpeg(file)) return std::nullopt;
  JpegReader reader(file);
  jpeg_decompress_struct& library = reader.library();
  if (!reader.Call([&] { jpeg_read_header(&library, TRUE); }).ok() || !HasPlainPlanes(library) ||
      !CheckLimits(library.image_height, library.image_width, limits).ok() ||
      !IsInside(box, {static_cast<int>(library.image_height), static_cast<int>(library.image_width)}))
    return std::nullopt;
  const std::array<Resampling, 3> resamplings =
      Resamplings(library, SufficientEighths(box, target), box, target);
  std::array<PlanePart, 3> wanted;
  for (int c = 0; c < 3; ++c) {
    const Resampling& by = resamplings[c];
    if (by.columns.most > kMostLines || by.rows.most > kMostLines) return std::nullopt;
    wanted[c] = {by.eighths, {by.columns.first, by.columns.last}, {by.rows.first, by.rows.last}};
  }
  const std::optional<Planes> planes = DecodePlanes(library, wanted);
  if (!planes) return std::nullopt;
  std::array<NarrowPlane, 3> narrow;
  for (int c = 0; c < 3; ++c) narrow[c] = ResizeColumns((*planes)[c], resamplings[c], target.width);
  RgbImage out = MakeImage(target);
  for (int y = 0; y < target.height; ++y) {
    std::array<Lines, 3> lines;
    for (int c = 0; c < 3; ++c) {
      const ShortKernel& rows = resamplings[c].rows;
      const Taps& taps = rows.taps[y];
      lines[c] = {.first = narrow[c].samples.get() + (taps.first - rows.first) * narrow[c].stride,
                  .stride = narrow[c].stride,
                  .weights = rows.weights_of(taps),
                  .count = taps.count};
    }
    BlendToRgb(lines, target.width, out.pixels.data() + size_t{3} * y * target.width);
  }
  return out;
}

}  // namespace mtrun::datasets
