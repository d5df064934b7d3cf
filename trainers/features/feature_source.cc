#include "trainers/features/feature_source.h"

#include <optional>
#include <utility>

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

namespace mtrun::trainers {

FeatureSource::FeatureSource(DatasetSource& order, MicroBatchSource& images, int64_t micro_batch,
                             ComputeFeatures compute, KeptFeatures& kept)
    : order_(order),
      images_(images),
      micro_batch_(micro_batch),
      compute_(std::move(compute)),
      kept_(kept),
      replaced_(images.Replaced()) {
  order.SkipReadsIf([this](int64_t step, int64_t number) { return kept_.Has(order_.IdsOf(step, number)); });
}

at::Tensor FeatureSource::Computed(const at::Tensor& images) const {
  const int64_t n = images.size(0);
  if (n >= micro_batch_) return kept_.AsKept(compute_(images));
  std::vector<int64_t> rest = images.sizes().vec();
  rest[0] = micro_batch_ - n;
  const at::Tensor filled = at::cat({images, at::zeros(rest, images.options())});
  return kept_.AsKept(compute_(filled.contiguous(images.suggest_memory_format())))
      .narrow(0, 0, n)
      .contiguous();
}

/// Forgets features if data that they may come from has been replaced.
void FeatureSource::ForgetIfReplaced() {
  const int64_t replaced = images_.Replaced();
  if (std::exchange(replaced_, replaced) != replaced) kept_.Forget();
}

Batch FeatureSource::Make(int64_t step, int64_t micro_batch) {
  ForgetIfReplaced();
  const std::vector<int64_t> ids = order_.IdsOf(step, micro_batch);
  if (std::optional<Batch> kept = kept_.Read(ids)) return *std::move(kept);
  Batch batch = images_.Make(step, micro_batch);
  ForgetIfReplaced();
  batch.images = Computed(batch.images);
  kept_.Keep(ids, batch);
  return batch;
}

void FeatureSource::Ahead(int64_t step, int64_t micro_batch) {
  if (!kept_.Has(order_.IdsOf(step, micro_batch))) images_.Ahead(step, micro_batch);
}

}  // namespace mtrun::trainers
