#include "trainers/engine/batch.h"

#include <algorithm>
#include <array>

#include <torch/torch.h>

#include "base/status_macros.h"

namespace mtrun::engine {
namespace {

constexpr int kChannels = datasets::PackedSplit::channels();

/// The normalised value of each byte, computed as PyTorch would in the same dtype, so that lookups are exact.
template <typename Real>
const std::array<Real, 256>& NormalisedBytes() {
  static const auto table = [] {
    std::array<Real, 256> values;
    for (int x = 0; x < 256; ++x) values[x] = (static_cast<Real>(x) / Real(255) - Real(0.5)) / Real(0.5);
    return values;
  }();
  return table;
}

/// Columns [first, last) of the output that lie on the source; output column x shows source column x - left,
/// or the mirrored one.
struct Columns {
  int first, last, left;
};
Columns VisibleColumns(int size, int width, int left) {
  return {std::clamp(left, 0, size), std::clamp(left + width, 0, size), left};
}

/// One image [height, width, 3] onto one [3, size, size].
template <typename Real>
void Place(const uint8_t* source, int height, int width, const Placement& placement, int size, Real* out) {
  const auto& value = NormalisedBytes<Real>();
  const int top = (size - height) / 2 - placement.dy;
  // A mirrored image is cut where the window lies on the mirrored original: flip first, then move.
  const Columns columns = VisibleColumns(size, width, (size - width) / 2 - placement.dx);
  const int step = placement.flip ? -kChannels : kChannels;
  for (int y = 0; y < size; ++y) {
    Real* const rows[kChannels] = {out + y * size, out + (size + y) * size, out + (2 * size + y) * size};
    const bool visible = y >= top && y < top + height;
    const int first = visible ? columns.first : size, last = visible ? columns.last : size;
    for (Real* row : rows) {
      std::fill(row, row + first, value[0]);
      std::fill(row + last, row + size, value[0]);
    }
    if (first >= last) continue;
    const int column = first - columns.left;
    const uint8_t* pixel =
        source +
        (static_cast<int64_t>(y - top) * width + (placement.flip ? width - 1 - column : column)) * kChannels;
    for (int x = first; x < last; ++x, pixel += step) {
      rows[0][x] = value[pixel[0]];
      rows[1][x] = value[pixel[1]];
      rows[2][x] = value[pixel[2]];
    }
  }
}

}  // namespace

BatchMaker::BatchMaker(const datasets::PackedSplit& data, const Options& options)
    : data_(data), options_(options) {
  MT_CHECK(options.dtype == at::kFloat || options.dtype == at::kDouble);
}

BatchMaker::Source BatchMaker::Gather(absl::Span<const int64_t> ids) const {
  Source source{.images = {}, .height = data_.height(), .width = data_.width(), .owner = {}};
  source.images.reserve(ids.size());
  for (const int64_t id : ids) source.images.push_back(data_.image(id).data());
  return source.height > options_.image_size || source.width > options_.image_size ? Resize(source) : source;
}

BatchMaker::Source BatchMaker::Resize(const Source& source) const {
  const auto n = static_cast<int64_t>(source.images.size());
  const int64_t bytes = static_cast<int64_t>(source.height) * source.width * kChannels;
  at::Tensor pixels = at::empty({n, source.height, source.width, kChannels}, at::kByte);
  for (int64_t i = 0; i < n; ++i) {
    std::copy_n(source.images[i], bytes, pixels.data_ptr<uint8_t>() + i * bytes);
  }
  const int64_t size = options_.image_size;
  at::Tensor resized =
      at::_upsample_bilinear2d_aa(pixels.permute({0, 3, 1, 2}).to(at::kFloat), {size, size}, false)
          .round()
          .clamp(0, 255)
          .to(at::kByte)
          .permute({0, 2, 3, 1})
          .contiguous();
  Source out{.images = {}, .height = options_.image_size, .width = options_.image_size, .owner = resized};
  for (int64_t i = 0; i < n; ++i)
    out.images.push_back(resized.data_ptr<uint8_t>() + i * size * size * kChannels);
  return out;
}

Batch BatchMaker::Make(absl::Span<const int64_t> ids, absl::Span<const Placement> placements) const {
  MT_CHECK(placements.empty() || placements.size() == ids.size());
  const auto n = static_cast<int64_t>(ids.size());
  const int size = options_.image_size;
  const Source source = Gather(ids);
  Batch batch{at::empty({n, kChannels, size, size}, options_.dtype), at::empty({n}, at::kLong)};
  const auto fill = [&](auto* out) {
    const int64_t stride = static_cast<int64_t>(kChannels) * size * size;
    for (int64_t i = 0; i < n; ++i) {
      Place(source.images[i], source.height, source.width, placements.empty() ? Placement{} : placements[i],
            size, out + i * stride);
    }
  };
  if (options_.dtype == at::kFloat) {
    fill(batch.images.data_ptr<float>());
  } else {
    fill(batch.images.data_ptr<double>());
  }
  int64_t* labels = batch.labels.data_ptr<int64_t>();
  for (int64_t i = 0; i < n; ++i) labels[i] = data_.label(ids[i]);
  if (!options_.device.is_cpu()) {
    batch = {batch.images.to(options_.device), batch.labels.to(options_.device)};
  }
  batch.images = batch.images.contiguous(options_.format);
  return batch;
}

}  // namespace mtrun::engine
