// All images of a split as bytes on the device, uploaded once: a batch is then made there, and what goes to
// the device for it is 32 bytes an image. The same batches as BatchMaker's, to the last bit. Works on any
// device.
#pragma once

#include "trainers/input/batch.h"

namespace mtrun::trainers {

class ResidentImages : public ImageBatches {
 public:
  /// Uploads the images; larger ones are resized on the way. `data` is needed only in here.
  ResidentImages(const datasets::PackedSplit& data, const BatchOptions& options);
  /// One PlacementTable.
  BatchInputs Inputs(absl::Span<const int64_t> ids, absl::Span<const Placement> placements) const override;
  Batch Compose(const std::vector<at::Tensor>& inputs) const override;

 private:
  const BatchOptions options_;
  at::Tensor bytes_;   // uint8 [N, H, W, 3]
  at::Tensor labels_;  // int64 [N]
  at::Tensor values_;  // of the 256 bytes
};

}  // namespace mtrun::trainers
