#include "trainers/weights/stored_tensor.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace mtrun::trainers {
namespace {

/// Limit for a tensor's elements, and for the product of an empty one's other sizes: their bytes fit 64 bits.
constexpr int64_t kMaxElements = int64_t{1} << 56;

/// Returns whether the product of the sizes that are not 0 is within the limit.
bool Fits(const std::vector<int64_t>& sizes) {
  int64_t product = 1;
  for (const int64_t size : sizes) {
    if (size < 0 || (size > 0 && product > kMaxElements / size)) return false;
    if (size > 0) product *= size;
  }
  return true;
}

}  // namespace

absl::Status BrokenLayout(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("broken weights: ", what));
}

absl::StatusOr<StoredTensor> PlaceTensor(TensorLayout layout, datasets::DType type, int64_t available,
                                         absl::string_view storage) {
  const size_t dimensions = layout.sizes.size();
  if (layout.strides.size() != dimensions || layout.offset < 0 || !Fits(layout.sizes))
    return BrokenLayout("a tensor with an invalid shape");
  StoredTensor tensor{.type = type, .offset = layout.offset, .storage = storage};
  __int128 last = layout.offset;
  for (size_t d = 0; d < dimensions; ++d) {
    if (layout.strides[d] < 0) return BrokenLayout("a tensor with an invalid shape");
    tensor.numel *= layout.sizes[d];
    last += static_cast<__int128>(layout.sizes[d] - 1) * layout.strides[d];
  }
  if (tensor.numel > 0 && last >= available) return BrokenLayout("a tensor exceeds its storage");
  tensor.sizes = std::move(layout.sizes);
  tensor.strides = std::move(layout.strides);
  return tensor;
}

void CopyElements(const StoredTensor& stored, char* out) {
  const uint64_t element = stored.element_size();
  const char* const first = stored.storage.data() + static_cast<uint64_t>(stored.offset) * element;
  std::vector<int64_t> index(stored.sizes.size(), 0);
  int64_t from = 0;
  for (int64_t i = 0; i < stored.numel; ++i, out += element) {
    std::memcpy(out, first + static_cast<uint64_t>(from) * element, element);
    for (size_t d = index.size(); d-- > 0;) {
      if (stored.sizes[d] == 1) continue;  // its stride can be any number
      from += stored.strides[d];
      if (++index[d] < stored.sizes[d]) break;
      from -= stored.sizes[d] * stored.strides[d];
      index[d] = 0;
    }
  }
}

}  // namespace mtrun::trainers
