#include "trainers/run/files/snapshot.h"

#include <algorithm>
#include <atomic>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainers/device/torch_status.h"
#include "trainers/device/transfer.h"

namespace mtrun::trainers {
namespace {

absl::Status Describe(const NamedTensors& tensors, checkpoints::TensorFile& file) {
  for (const auto& [name, tensor] : tensors) {
    const std::optional<datasets::DType> dtype = FileDType(tensor.scalar_type());
    if (!dtype)
      return absl::InvalidArgumentError(absl::StrCat(name, " has a dtype that safetensors does not support"));
    file.infos.push_back({.name = name, .dtype = *dtype, .shape = tensor.sizes().vec()});
  }
  return absl::OkStatus();
}

/// Alignment of tensors, the same as LibTorch's.
constexpr int64_t kAlignment = 64;

int64_t Room(const at::Tensor& tensor) {
  return (static_cast<int64_t>(tensor.nbytes()) + kAlignment - 1) / kAlignment * kAlignment;
}

int64_t TotalRoom(const NamedTensors& tensors) {
  int64_t bytes = 0;
  for (const auto& item : tensors) bytes += Room(item.second);
  return bytes;
}

/// Returns the GPU that the tensors are on, or the CPU.
at::Device DeviceOf(const NamedTensors& tensors) {
  for (const auto& item : tensors) {
    if (item.second.is_cuda()) return item.second.device();
  }
  return at::kCPU;
}

/// Copies the tensors into `block` from byte `offset` on; returns the offset for the next one.
int64_t CopyOut(const NamedTensors& tensors, const at::Tensor& block, int64_t offset,
                checkpoints::TensorFile& file) {
  for (const auto& item : tensors) {
    const at::Tensor host = block.narrow(0, offset, static_cast<int64_t>(item.second.nbytes()));
    Fetch(item.second, host);
    file.bytes.emplace_back(host.const_data_ptr<uint8_t>(), item.second.nbytes());
    offset += Room(item.second);
  }
  return offset;
}

bool IsOfLossScale(const std::pair<std::string, at::Tensor>& item) {
  return item.first.starts_with("scaler/");
}

/// Skips a loss scale (of fp16) if only one side has it: another precision starts with its own or has none.
void PassOverLossScale(NamedTensors& from, NamedTensors& to) {
  if (std::any_of(from.begin(), from.end(), IsOfLossScale) ==
      std::any_of(to.begin(), to.end(), IsOfLossScale))
    return;
  std::erase_if(from, IsOfLossScale);
  std::erase_if(to, IsOfLossScale);
}

absl::Status RestoreFile(const std::string& bytes, const char* name, NamedTensors to) {
  MT_ASSIGN_OR_RETURN(NamedTensors tensors, Annotate(ParseTensors(bytes), name));
  PassOverLossScale(tensors, to);
  return Annotate(CopyTensors(tensors, to), name);
}

}  // namespace

std::shared_ptr<at::Tensor> SnapshotMemory::Bytes(int64_t size, at::Device device) {
  // Reuses blocks, because faulting in fresh pages takes longer than the copy itself.
  for (const auto& block : blocks_) {
    if (block.use_count() > 1) continue;
    std::atomic_thread_fence(std::memory_order_acquire);  // its last owner has read it
    if (block->numel() < size) *block = HostBuffer({size}, at::kByte, device);
    return block;
  }
  return blocks_.emplace_back(std::make_shared<at::Tensor>(HostBuffer({size}, at::kByte, device)));
}

absl::StatusOr<checkpoints::Snapshot> SnapshotMemory::Take(int64_t step, const NamedTensors& weights,
                                                           const NamedTensors& rest, std::string state) {
  checkpoints::Snapshot snapshot;
  snapshot.step = step;
  snapshot.state = std::move(state);
  MT_RETURN_IF_ERROR(Describe(weights, snapshot.model));
  MT_RETURN_IF_ERROR(Describe(rest, snapshot.optimizer));
  const at::Device device = DeviceOf(weights);
  const absl::Status copied = TorchStatus("copy the run's state", [&] {
    const auto block = Bytes(TotalRoom(weights) + TotalRoom(rest), device);
    const int64_t middle = CopyOut(weights, *block, 0, snapshot.model);
    CopyOut(rest, *block, middle, snapshot.optimizer);
    snapshot.arrived = Arrival(device);
    snapshot.owner = block;
  });
  if (copied.ok()) return snapshot;
  snapshot.model = snapshot.optimizer = {};
  snapshot.arrived = [copied] { return copied; };
  return snapshot;
}

absl::Status Restore(const checkpoints::Checkpoint& checkpoint, const NamedTensors& weights,
                     const NamedTensors& rest) {
  MT_RETURN_IF_ERROR(RestoreFile(checkpoint.model, "model.safetensors", weights));
  return RestoreFile(checkpoint.optimizer, "optimizer.safetensors", rest);
}

}  // namespace mtrun::trainers
