// What the files that Python writes with torch.save hold: the zip format and, for files from before PyTorch
// 1.6, the older one (torchvision's early weights). A file holds tensors in plain containers, or it is
// refused; nothing in it is executed. Any bytes at all may be given. Free of LibTorch. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mtrun::trainers {

enum class StoredType {
  kFloat32,
  kFloat64,
  kFloat16,
  kBFloat16,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUint8,
  kBool
};

/// Bytes of one element.
uint64_t SizeOf(StoredType type);

/// One tensor: element (i, j, ...) is storage[offset + i * strides[0] + j * strides[1] + ...], in elements.
/// All of them lie within the storage, and no tensor repeats elements beyond a bound.
struct StoredTensor {
  std::string name = {};
  StoredType type = StoredType::kFloat32;
  std::vector<int64_t> sizes = {}, strides = {};
  int64_t offset = 0, numel = 1;
  absl::string_view storage = {};  // whole, within the file's bytes
};

/// Writes numel elements, in the order of a contiguous tensor. The stride of a side of 1 does not matter.
void CopyElements(const StoredTensor& stored, char* out);

/// By the first bytes of a file.
bool LooksLikePth(absl::string_view file);

/// The state dict in a file's bytes, in the file's order. It is the dictionary that was saved, or within a
/// checkpoint the first of its entries state_dict, model_state_dict, model, net. A common prefix "module."
/// (torch's DistributedDataParallel) is taken off. kDataLoss: broken; kPermissionDenied: holds more than
/// data; kInvalidArgument: no state dict, or tensors of a kind that weights do not come in.
absl::StatusOr<std::vector<StoredTensor>> ParsePthLayout(absl::string_view file);

}  // namespace mtrun::trainers
