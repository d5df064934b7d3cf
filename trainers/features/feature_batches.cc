#include "trainers/features/feature_batches.h"

#include <optional>
#include <utility>

namespace mtrun::trainers {

FeatureBatches::FeatureBatches(std::unique_ptr<ImageBatches> images, ComputeFeatures compute,
                               KeptFeatures& kept)
    : images_(std::move(images)), compute_(std::move(compute)), kept_(kept) {}

BatchInputs FeatureBatches::Inputs(absl::Span<const int64_t> ids,
                                   absl::Span<const Placement> placements) const {
  std::optional<Batch> batch = kept_.Read(ids);
  if (!batch) {
    batch = images_->Make(ids, placements);
    batch->images = kept_.AsKept(compute_(batch->images));
    kept_.Keep(ids, *batch);
  }
  return {{batch->images, batch->labels}, batch->gathered};
}

Batch FeatureBatches::Compose(const std::vector<at::Tensor>& inputs) const { return {inputs[0], inputs[1]}; }

}  // namespace mtrun::trainers
