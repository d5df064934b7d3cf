#include "trainers/input/streamed_images.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <torch/types.h>

#include "trainers/device/transfer.h"
#include "trainers/input/byte_values.h"
#include "trainers/input/image_bytes.h"
#include "trainers/input/place_images.h"

namespace mtrun::trainers {

StreamedImages::StreamedImages(const datasets::PackedSplit& data, const BatchOptions& options)
    : data_(data), options_(options), values_(NormalisedByteValues(options.dtype).to(options.device)) {}

BatchInputs StreamedImages::Inputs(absl::Span<const int64_t> ids,
                                   absl::Span<const Placement> placements) const {
  return InputsOf(GatherImages(data_, ids, options_.image_size, options_.part), placements);
}

BatchInputs StreamedImages::InputsOf(const ImageBytes& source, absl::Span<const Placement> placements) const {
  std::vector<int64_t> rows(source.images.size());  // one for each image that is sent
  std::iota(rows.begin(), rows.end(), 0);
  const at::Tensor labels = HostBuffer({static_cast<int64_t>(rows.size())}, at::kLong, options_.device);
  std::copy(source.labels.begin(), source.labels.end(), labels.data_ptr<int64_t>());
  const at::Tensor table = PlacementTable(rows, placements, options_.device);
  return {{Send(PackImages(source, options_.device), options_.device), Send(table, options_.device),
           Send(labels, options_.device)},
          source.gathered};
}

Batch StreamedImages::Compose(const std::vector<at::Tensor>& inputs) const {
  const int size = options_.grows ? static_cast<int>(inputs[0].size(1)) : options_.image_size;
  return {PlaceImages(inputs[0], inputs[1], values_, size).contiguous(options_.format), inputs[2]};
}

}  // namespace mtrun::trainers
