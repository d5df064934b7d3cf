#include "trainers/input/resident_images.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <torch/types.h>

#include "trainers/device/transfer.h"
#include "trainers/input/byte_values.h"
#include "trainers/input/image_bytes.h"
#include "trainers/input/place_images.h"

namespace mtrun::trainers {
namespace {

/// Images uploaded at once, which bounds the host memory for resizing.
constexpr int64_t kUpload = 256;

at::Tensor Labels(const datasets::PackedSplit& data) {
  at::Tensor labels = at::empty({data.size()}, at::kLong);
  for (int64_t i = 0; i < data.size(); ++i) labels.data_ptr<int64_t>()[i] = data.label(i);
  return labels;
}

at::Tensor Upload(const datasets::PackedSplit& data, const BatchOptions& options) {
  at::Tensor all;
  for (int64_t begin = 0; begin < data.size(); begin += kUpload) {
    std::vector<int64_t> ids(std::min(kUpload, data.size() - begin));
    std::iota(ids.begin(), ids.end(), begin);
    const at::Tensor part =
        PackImages(GatherImages(data, ids, options.image_size, options.part), options.device);
    if (!all.defined()) {
      all = at::empty({data.size(), part.size(1), part.size(2), part.size(3)},
                      at::TensorOptions(at::kByte).device(options.device));
    }
    all.narrow(0, begin, part.size(0)).copy_(part, /*non_blocking=*/true);
  }
  return all;
}

}  // namespace

ResidentImages::ResidentImages(const datasets::PackedSplit& data, const BatchOptions& options)
    : options_(options),
      bytes_(Upload(data, options)),
      labels_(Labels(data).to(options.device)),
      values_(NormalisedByteValues(options.dtype).to(options.device)) {}

BatchInputs ResidentImages::Inputs(absl::Span<const int64_t> ids,
                                   absl::Span<const Placement> placements) const {
  const at::Tensor table = PlacementTable(ids, placements, options_.device);
  return {{Send(table, options_.device)}, SamplesOf(table)};
}

Batch ResidentImages::Compose(const std::vector<at::Tensor>& inputs) const {
  const at::Tensor& table = inputs[0];
  return {PlaceImages(bytes_, table, values_, options_.image_size).contiguous(options_.format),
          labels_.index_select(0, table.select(1, 0))};
}

}  // namespace mtrun::trainers
