// Keeps all images of a split as bytes on the device, uploaded once. Batches are made there, and each image
// of a batch costs 32 bytes of transfer. Batches equal BatchMaker's, to the last bit. Works on any device.
#pragma once

#include "trainers/input/batch.h"

namespace mtrun::trainers {

class ResidentImages : public ImageBatches {
 public:
  /// Uploads the images, after resizing larger ones. `data` is needed only in the constructor.
  ResidentImages(const datasets::PackedSplit& data, const BatchOptions& options);
  /// Returns one PlacementTable.
  BatchInputs Inputs(absl::Span<const int64_t> ids, absl::Span<const Placement> placements) const override;
  Batch Compose(const std::vector<at::Tensor>& inputs) const override;

 private:
  const BatchOptions options_;
  at::Tensor bytes_;   // uint8 [N, H, W, 3]
  at::Tensor labels_;  // int64 [N]
  at::Tensor values_;  // normalised values of the 256 bytes
};

}  // namespace mtrun::trainers
