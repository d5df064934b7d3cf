#include "trainers/input/batch.h"

#include <algorithm>

#include <ATen/Parallel.h>
#include <torch/types.h>

#include "base/status_macros.h"
#include "trainers/input/byte_values.h"
#include "trainers/input/image_bytes.h"
#include "trainers/input/resident_images.h"
#include "trainers/input/streamed_images.h"

namespace mtrun::trainers {
namespace {

constexpr int kChannels = datasets::PackedSplit::channels();
constexpr int64_t kGrain = 1 << 19;  // least number of values for a thread

/// Columns [first, last) of the output show the source. Column x shows source column x - left, or its mirror.
struct Columns {
  int first, last, left;
};
Columns VisibleColumns(int size, int width, int left) {
  return {std::clamp(left, 0, size), std::clamp(left + width, 0, size), left};
}

/// Places one image [height, width, 3] on one [3, size, size].
template <typename Real>
void Place(const uint8_t* source, int height, int width, const Placement& placement, int size, Real* out) {
  const auto& value = NormalisedBytes<Real>();
  const int top = (size - height) / 2 - placement.dy;
  // Flip first, then move, because the window cuts the mirrored original.
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
  MT_CHECK(options.device.is_cpu());
}

BatchInputs ImageBatches::InputsOf(const ImageBytes&, absl::Span<const Placement>) const {
  MT_CHECK(false) << "all images are on the device";
  return {};
}

BatchInputs BatchMaker::Inputs(absl::Span<const int64_t> ids, absl::Span<const Placement> placements) const {
  return InputsOf(GatherImages(data_, ids, options_.image_size, options_.part), placements);
}

BatchInputs BatchMaker::InputsOf(const ImageBytes& source, absl::Span<const Placement> placements) const {
  MT_CHECK(placements.empty() || placements.size() == source.images.size());
  const auto n = static_cast<int64_t>(source.images.size());
  const int size = options_.grows ? source.height : options_.image_size;
  Batch batch{at::empty({n, kChannels, size, size}, at::TensorOptions(options_.dtype)),
              at::empty({n}, at::TensorOptions(at::kLong))};
  const auto fill = [&](auto* out) {
    const int64_t stride = static_cast<int64_t>(kChannels) * size * size;
    at::parallel_for(0, n, std::max<int64_t>(1, kGrain / stride), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Place(source.images[i], source.height, source.width, placements.empty() ? Placement{} : placements[i],
              size, out + i * stride);
      }
    });
  };
  if (options_.dtype == at::kFloat) {
    fill(batch.images.data_ptr<float>());
  } else {
    fill(batch.images.data_ptr<double>());
  }
  int64_t* labels = batch.labels.data_ptr<int64_t>();
  std::copy(source.labels.begin(), source.labels.end(), labels);
  return {{batch.images, batch.labels}, source.gathered};
}

Batch BatchMaker::Compose(const std::vector<at::Tensor>& inputs) const {
  return {inputs[0].contiguous(options_.format), inputs[1]};
}

std::unique_ptr<ImageBatches> MakeImageBatches(const datasets::PackedSplit& data,
                                               const BatchOptions& options) {
  if (options.resident) return std::make_unique<ResidentImages>(data, options);
  if (!options.device.is_cpu()) return std::make_unique<StreamedImages>(data, options);
  return std::make_unique<BatchMaker>(data, options);
}

}  // namespace mtrun::trainers
