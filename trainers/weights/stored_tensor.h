// A tensor in the bytes of a file that torch.save wrote. Independent of LibTorch. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "datasets/packed/safetensors.h"

namespace mtrun::trainers {

/// Sizes and strides of a tensor, and its offset in a storage, all in elements.
struct TensorLayout {
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
};

/// One tensor: element (i, j, ...) is storage[offset + i * strides[0] + j * strides[1] + ...], in elements.
/// All of them are within the storage. Elements can repeat (an expanded tensor).
struct StoredTensor {
  std::string name = {};
  datasets::DType type = datasets::DType::kF32;
  std::vector<int64_t> sizes = {}, strides = {};
  int64_t offset = 0, numel = 1;
  absl::string_view storage = {};  // the whole storage, within the file's bytes
  bool negative = false;           // the values are those of the storage with the other sign

  /// Returns the bytes of one element.
  uint64_t element_size() const { return static_cast<uint64_t>(datasets::DTypeSize(type)); }
};

/// Returns kDataLoss if a layout exceeds a storage of `available` elements, or has sizes that no tensor has.
absl::StatusOr<StoredTensor> PlaceTensor(TensorLayout layout, datasets::DType type, int64_t available,
                                         absl::string_view storage);

/// Writes numel elements in the order of a contiguous tensor, without the change of sign. If a side is 1, its
/// stride does not matter.
void CopyElements(const StoredTensor& stored, char* out);

/// Returns kDataLoss, "broken weights: `what`".
absl::Status BrokenLayout(absl::string_view what);

}  // namespace mtrun::trainers
