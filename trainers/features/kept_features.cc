#include "trainers/features/kept_features.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <ATen/ops/empty.h>

#include "base/log.h"

namespace mtrun::trainers {
namespace {

constexpr int64_t kLabelBytes = sizeof(int64_t);

}  // namespace

KeptFeatures::KeptFeatures(int64_t images, int64_t width, at::ScalarType dtype, at::Device device)
    : width_(width), dtype_(dtype), device_(device), there_(static_cast<size_t>(images)) {}

void KeptFeatures::Open(const std::string& path, uint64_t key) {
  const auto bytes = width_ * static_cast<int64_t>(c10::elementSize(dtype_));
  absl::StatusOr<FeatureFile> file = FeatureFile::Open(path, key, kLabelBytes + bytes);
  const MutexLock lock(mutex_);
  file_.reset();
  std::fill(there_.begin(), there_.end(), false);
  takes_more_ = file.ok();
  if (file.ok()) file_ = *std::move(file);
  if (!takes_more_) {
    log::Warning(
        "the frozen layers compute all images again in each epoch, because their features cannot be kept: ",
        std::string(file.status().message()));
  }
}

bool KeptFeatures::ReadRow(int64_t id, absl::Span<char> row) const {
  if (!file_ || !file_->Read(id, row)) return false;
  there_[static_cast<size_t>(id)] = true;
  return true;
}

bool KeptFeatures::Has(absl::Span<const int64_t> ids) const {
  const MutexLock lock(mutex_);
  if (!file_) return false;
  std::string row(static_cast<size_t>(file_->row_bytes()), '\0');
  for (const int64_t id : ids) {
    if (!there_[static_cast<size_t>(id)] && !ReadRow(id, absl::MakeSpan(row))) return false;
  }
  return true;
}

std::optional<Batch> KeptFeatures::Read(absl::Span<const int64_t> ids) const {
  const auto n = static_cast<int64_t>(ids.size());
  const at::Tensor features = at::empty({n, width_}, dtype_), labels = at::empty({n}, at::kLong);
  datasets::SampleSum gathered;
  const MutexLock lock(mutex_);
  if (!file_) return std::nullopt;
  std::string row(static_cast<size_t>(file_->row_bytes()), '\0');
  const size_t value_bytes = row.size() - kLabelBytes;
  auto* value = static_cast<char*>(features.mutable_data_ptr());
  auto* label = static_cast<char*>(labels.mutable_data_ptr());
  for (const int64_t id : ids) {
    if (!ReadRow(id, absl::MakeSpan(row))) {
      there_[static_cast<size_t>(id)] = false;
      return std::nullopt;
    }
    std::memcpy(label, row.data(), kLabelBytes);
    std::memcpy(value, row.data() + kLabelBytes, value_bytes);
    label += kLabelBytes;
    value += value_bytes;
    gathered.Add(id);
  }
  return Batch{features.to(device_), labels.to(device_), gathered};
}

void KeptFeatures::Keep(absl::Span<const int64_t> ids, const Batch& features) {
  const MutexLock lock(mutex_);
  if (!file_ || !takes_more_) return;
  const at::Tensor values = features.images.to(at::kCPU, dtype_).contiguous();
  const at::Tensor labels = features.labels.to(at::kCPU).contiguous();
  std::string row(static_cast<size_t>(file_->row_bytes()), '\0');
  const size_t value_bytes = row.size() - kLabelBytes;
  const auto* value = static_cast<const char*>(values.const_data_ptr());
  const auto* label = static_cast<const char*>(labels.const_data_ptr());
  for (const int64_t id : ids) {
    std::memcpy(row.data(), label, kLabelBytes);
    std::memcpy(row.data() + kLabelBytes, value, value_bytes);
    label += kLabelBytes;
    value += value_bytes;
    const absl::Status written = file_->Write(id, absl::MakeConstSpan(row));
    if (!written.ok()) {
      takes_more_ = false;
      log::Warning(
          "no more features of the frozen layers are kept, so these compute some images in each epoch: ",
          std::string(written.message()));
      return;
    }
    there_[static_cast<size_t>(id)] = true;
  }
}

void KeptFeatures::Forget() {
  const MutexLock lock(mutex_);
  std::fill(there_.begin(), there_.end(), false);
  if (file_ && !file_->Clear().ok()) file_.reset();
}

Batch KeptFeatures::Empty() const {
  return {at::empty({0, width_}, at::TensorOptions(dtype_).device(device_)),
          at::empty({0}, at::TensorOptions(at::kLong).device(device_))};
}

}  // namespace mtrun::trainers
