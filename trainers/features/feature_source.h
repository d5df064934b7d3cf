// Makes micro-batches of features in place of images. Features that are kept are read; the others are computed
// from their images and kept. Thread rules of the source of images.
#pragma once

#include <cstdint>
#include <functional>

#include "trainers/features/kept_features.h"
#include "trainers/input/dataset_source.h"
#include "trainers/input/micro_batch_source.h"

namespace mtrun::trainers {

/// Computes features [n, width] from images [n, 3, S, S], without gradients.
using ComputeFeatures = std::function<at::Tensor(const at::Tensor&)>;

class FeatureSource : public MicroBatchSource {
 public:
  /// `order`: which images a micro-batch has; it reads no images ahead whose features are kept. `images`: makes
  /// batches of images in that order; may be `order` itself. `micro_batch`: images of a whole one. A shorter one
  /// is filled up with black images before `compute`, so that each image is always computed in the same shape.
  /// All must outlive this, and `order` must not make batches afterwards.
  FeatureSource(DatasetSource& order, MicroBatchSource& images, int64_t micro_batch, ComputeFeatures compute,
                KeptFeatures& kept);

  int64_t micro_batches() const override { return images_.micro_batches(); }
  int64_t SamplesInStep(int64_t step) const override { return images_.SamplesInStep(step); }
  int64_t SamplesInMicroBatch(int64_t step, int64_t micro_batch) const override {
    return images_.SamplesInMicroBatch(step, micro_batch);
  }
  bool Has(int64_t step, int64_t micro_batch) const override { return images_.Has(step, micro_batch); }
  int64_t Replaced() const override { return images_.Replaced(); }
  Batch Make(int64_t step, int64_t micro_batch) override;
  Batch Empty(int64_t) override { return kept_.Empty(); }
  void Ahead(int64_t step, int64_t micro_batch) override;
  void Expect(int64_t step, int64_t begin, int64_t end) override { images_.Expect(step, begin, end); }

 private:
  at::Tensor Computed(const at::Tensor& images) const;
  void ForgetIfReplaced();

  DatasetSource& order_;
  MicroBatchSource& images_;
  const int64_t micro_batch_;
  const ComputeFeatures compute_;
  KeptFeatures& kept_;
  int64_t replaced_;  // Replaced() of what is kept
};

}  // namespace mtrun::trainers
