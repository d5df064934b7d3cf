#include "trainers/features/frozen_features.h"

#include <unistd.h>

#include <ATen/Parallel.h>
#include <torch/types.h>

#include "absl/strings/str_cat.h"
#include "base/fast_digest.h"
#include "trainers/features/feature_batches.h"

namespace mtrun::trainers {
namespace {

uint64_t DigestOf(const at::Tensor& tensor, uint64_t before) {
  const at::Tensor host = tensor.detach().to(at::kCPU).contiguous();
  return FastDigest(static_cast<const char*>(host.const_data_ptr()), host.nbytes(), before);
}

}  // namespace

FrozenFeatures::FrozenFeatures(Task& task, Options options) : task_(task), options_(std::move(options)) {}

ComputeFeatures FrozenFeatures::Compute() const {
  return [this](const at::Tensor& images) {
    const torch::NoGradGuard no_grad;
    const Autocast autocast(options_.device.type(), options_.precision);
    return task_.Features(images);
  };
}

KeptFeatures& FrozenFeatures::Add(const std::string& name, int64_t size) {
  return splits_
      .emplace_back(std::piecewise_construct,
                    std::forward_as_tuple(absl::StrCat(options_.folder, "/", name, ".features")),
                    std::forward_as_tuple(size, task_.features(), options_.dtype, options_.device))
      .second;
}

std::unique_ptr<MicroBatchSource> FrozenFeatures::SourceOver(DatasetSource& order, MicroBatchSource& images,
                                                             int64_t size) {
  return std::make_unique<FeatureSource>(order, images, options_.micro_batch, Compute(), Add("train", size));
}

std::unique_ptr<ImageBatches> FrozenFeatures::BatchesOver(std::unique_ptr<ImageBatches> images, int64_t size,
                                                          const std::string& name) {
  return std::make_unique<FeatureBatches>(std::move(images), Compute(), Add(name, size));
}

uint64_t FrozenFeatures::Key() const {
  const std::string text = absl::StrCat(options_.depends_on, "|", at::get_num_threads());
  uint64_t key = FastDigest(text.data(), text.size());
  for (const auto& parameter : task_.module().parameters()) {
    if (!parameter.requires_grad()) key = DigestOf(parameter, key);
  }
  for (const auto& buffer : task_.module().buffers()) key = DigestOf(buffer, key);
  return key | 1;
}

void FrozenFeatures::Enter() {
  const uint64_t key = Key();
  if (key == key_) return;
  key_ = key;
  for (auto& [file, features] : splits_) features.Open(file, key);
}

void FrozenFeatures::Remove() {
  for (const auto& [file, features] : splits_) unlink(file.c_str());
}

}  // namespace mtrun::trainers
