// Features of the images of one split: what the frozen part of a network computes from each, and its label.
// Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "base/mutex.h"
#include "trainers/features/feature_file.h"
#include "trainers/input/batch.h"

namespace mtrun::trainers {

class KeptFeatures {
 public:
  /// `images`: number of the split's. `width`: values of an image, of `dtype` (kFloat or kDouble), on `device`.
  KeptFeatures(int64_t images, int64_t width, at::ScalarType dtype, at::Device device);

  /// Keeps rows in the file `path` from now on. If it cannot be opened, warns and keeps nothing.
  void Open(const std::string& path, uint64_t key);
  /// Returns whether the features of all these images are there.
  bool Has(absl::Span<const int64_t> ids) const;
  /// Returns the features [n, width] of the images as a batch's images; nullopt if one is missing.
  std::optional<Batch> Read(absl::Span<const int64_t> ids) const;
  /// Keeps a batch of features. If the file takes no more, warns once; they are computed again when needed.
  void Keep(absl::Span<const int64_t> ids, const Batch& features);
  /// Keeps none of those before any more, because they may come from images that were damaged.
  void Forget();
  /// Returns `features` as Read would return them.
  at::Tensor AsKept(const at::Tensor& features) const { return features.to(device_, dtype_); }
  /// Returns the features of a batch without images.
  Batch Empty() const;

 private:
  bool ReadRow(int64_t id, absl::Span<char> row) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t width_;
  const at::ScalarType dtype_;
  const at::Device device_;
  mutable Mutex mutex_;
  std::optional<FeatureFile> file_ ABSL_GUARDED_BY(mutex_);
  mutable std::vector<bool> there_ ABSL_GUARDED_BY(mutex_);  // rows that this process has read or written
  bool takes_more_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace mtrun::trainers
