// Makes batches of features for evaluations. Features that are kept are read; the others are computed from
// their images and kept. An evaluation always has the same batches, so an image is always computed in the same
// one. Not thread-safe.
#pragma once

#include <memory>
#include <vector>

#include "trainers/features/feature_source.h"
#include "trainers/features/kept_features.h"
#include "trainers/input/batch.h"

namespace mtrun::trainers {

class FeatureBatches : public ImageBatches {
 public:
  /// `kept` must outlive this.
  FeatureBatches(std::unique_ptr<ImageBatches> images, ComputeFeatures compute, KeptFeatures& kept);
  BatchInputs Inputs(absl::Span<const int64_t> ids, absl::Span<const Placement> placements) const override;
  Batch Compose(const std::vector<at::Tensor>& inputs) const override;

 private:
  const std::unique_ptr<ImageBatches> images_;
  const ComputeFeatures compute_;
  KeptFeatures& kept_;
};

}  // namespace mtrun::trainers
