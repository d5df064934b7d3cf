#include "trainers/input/streamed_images.h"

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
  const ImageBytes source = GatherImages(data_, ids, options_.image_size);
  std::vector<int64_t> rows(ids.size());  // of the bytes that are sent
  std::iota(rows.begin(), rows.end(), 0);
  const at::Tensor labels = HostBuffer({static_cast<int64_t>(ids.size())}, at::kLong, options_.device);
  int64_t* label = labels.data_ptr<int64_t>();
  for (const int64_t id : ids) *label++ = data_.label(id);
  const at::Tensor table = PlacementTable(rows, placements, options_.device);
  return {{Send(PackImages(source, options_.device), options_.device), Send(table, options_.device),
           Send(labels, options_.device)},
          source.gathered};
}

Batch StreamedImages::Compose(const std::vector<at::Tensor>& inputs) const {
  return {PlaceImages(inputs[0], inputs[1], values_, options_.image_size).contiguous(options_.format),
          inputs[2]};
}

}  // namespace mtrun::trainers
