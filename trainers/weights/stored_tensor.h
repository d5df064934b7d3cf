// A tensor in the bytes of a file that torch.save wrote. Independent of LibTorch. Pure functions.
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
  kFloat8E4M3,
  kFloat8E5M2,
  kFloat8E4M3Fnuz,
  kFloat8E5M2Fnuz,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUint64,
  kUint32,
  kUint16,
  kUint8,
  kBool
};

/// Returns the bytes of one element.
uint64_t SizeOf(StoredType type);

/// Sizes and strides of a tensor, and its offset in a storage, all in elements.
struct TensorLayout {
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
};

/// One tensor: element (i, j, ...) is storage[offset + i * strides[0] + j * strides[1] + ...], in elements.
/// All of them are within the storage. Elements can repeat (an expanded tensor).
struct StoredTensor {
  std::string name = {};
  StoredType type = StoredType::kFloat32;
  std::vector<int64_t> sizes = {}, strides = {};
  int64_t offset = 0, numel = 1;
  absl::string_view storage = {};  // the whole storage, within the file's bytes
  bool negative = false;           // the values are those of the storage with the other sign
};

/// Returns kDataLoss if a layout exceeds a storage of `available` elements, or has sizes that no tensor has.
absl::StatusOr<StoredTensor> PlaceTensor(TensorLayout layout, StoredType type, int64_t available,
                                         absl::string_view storage);

/// Writes numel elements in the order of a contiguous tensor, without the change of sign. If a side is 1, its
/// stride does not matter.
void CopyElements(const StoredTensor& stored, char* out);

/// Returns kDataLoss, "broken weights: `what`".
absl::Status BrokenLayout(absl::string_view what);

}  // namespace mtrun::trainers
