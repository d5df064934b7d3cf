// Sends images to the device batch by batch, as bytes, and places and normalises them there: a quarter of the
// transfer of float32 images. Batches equal BatchMaker's, to the last bit. Works on any device.
#pragma once

#include "trainers/input/batch.h"

namespace mtrun::trainers {

class StreamedImages : public ImageBatches {
 public:
  /// `data` must outlive this.
  StreamedImages(const datasets::PackedSplit& data, const BatchOptions& options);
  /// Returns the images' bytes uint8 [n, H, W, 3], one PlacementTable and the labels. LibTorch reuses their
  /// host memory after they have arrived.
  BatchInputs Inputs(absl::Span<const int64_t> ids, absl::Span<const Placement> placements) const override;
  BatchInputs InputsOf(const ImageBytes& source, absl::Span<const Placement> placements) const override;
  Batch Compose(const std::vector<at::Tensor>& inputs) const override;

 private:
  const datasets::PackedSplit& data_;
  const BatchOptions options_;
  const at::Tensor values_;  // normalised values of the 256 bytes
};

}  // namespace mtrun::trainers
