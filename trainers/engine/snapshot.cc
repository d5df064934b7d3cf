#include "trainers/engine/snapshot.h"

#include <cstring>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mtrun::engine {
namespace {

absl::Status Describe(const NamedTensors& tensors, checkpoints::TensorFile& file) {
  for (const auto& [name, tensor] : tensors) {
    const std::optional<datasets::DType> dtype = FileDType(tensor.scalar_type());
    if (!dtype) return absl::InvalidArgumentError(absl::StrCat(name, " has a dtype that safetensors lacks"));
    file.infos.push_back({.name = name, .dtype = *dtype, .shape = tensor.sizes().vec()});
  }
  return absl::OkStatus();
}

size_t TotalBytes(const NamedTensors& tensors) {
  size_t bytes = 0;
  for (const auto& item : tensors) bytes += item.second.nbytes();
  return bytes;
}

/// Copies row-major; returns where the next one goes.
uint8_t* CopyOut(const NamedTensors& tensors, uint8_t* to, checkpoints::TensorFile& file) {
  for (const auto& item : tensors) {
    const at::Tensor host = item.second.detach().to(at::kCPU).contiguous();
    std::memcpy(to, host.const_data_ptr(), host.nbytes());
    file.bytes.emplace_back(to, host.nbytes());
    to += host.nbytes();
  }
  return to;
}

absl::Status RestoreFile(const std::string& bytes, const char* name, const NamedTensors& to) {
  const auto tensors = ParseTensors(bytes);
  if (!tensors.ok()) return Annotate(tensors.status(), name);
  return Annotate(CopyTensors(*tensors, to), name);
}

}  // namespace

std::shared_ptr<std::vector<uint8_t>> SnapshotMemory::Bytes(size_t size) {
  // Faulting in fresh pages takes longer than the copy itself.
  if (!last_ || last_.use_count() > 1 || last_->size() != size) {
    last_ = std::make_shared<std::vector<uint8_t>>(size);
  }
  return last_;
}

absl::StatusOr<checkpoints::Snapshot> SnapshotMemory::Take(int64_t step, const NamedTensors& weights,
                                                           const NamedTensors& rest, std::string state) {
  checkpoints::Snapshot snapshot;
  snapshot.step = step;
  snapshot.state = std::move(state);
  MT_RETURN_IF_ERROR(Describe(weights, snapshot.model));
  MT_RETURN_IF_ERROR(Describe(rest, snapshot.optimizer));
  const auto bytes = Bytes(TotalBytes(weights) + TotalBytes(rest));
  uint8_t* const middle = CopyOut(weights, bytes->data(), snapshot.model);
  CopyOut(rest, middle, snapshot.optimizer);
  snapshot.owner = bytes;
  return snapshot;
}

absl::Status Restore(const checkpoints::Checkpoint& checkpoint, const NamedTensors& weights,
                     const NamedTensors& rest) {
  MT_RETURN_IF_ERROR(RestoreFile(checkpoint.model, "model.safetensors", weights));
  return RestoreFile(checkpoint.optimizer, "optimizer.safetensors", rest);
}

}  // namespace mtrun::engine
