#include <string>

#include "datasets/packed/safetensors.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/invariant.h"

namespace mtrun::fuzz {

void FuzzSafetensors(std::string_view bytes) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  const auto header = datasets::ParseSafetensorsHeader({data, bytes.size()});
  if (!header.ok()) return;
  int64_t end = 0;
  for (const datasets::TensorInfo& tensor : header->tensors) {
    MT_HOLDS(tensor.begin == end && tensor.end >= tensor.begin) << tensor.name;
    end = tensor.end;
  }
  MT_HOLDS(end == header->data_bytes);
  MT_HOLDS(header->data_offset + header->data_bytes == static_cast<int64_t>(bytes.size()));
  const absl::StatusOr<std::string> encoded = datasets::EncodeSafetensorsHeader(*header);
  if (!encoded.ok()) return;
  std::string file = *encoded;
  file.resize(file.size() + static_cast<size_t>(header->data_bytes));
  const auto again =
      datasets::ParseSafetensorsHeader({reinterpret_cast<const uint8_t*>(file.data()), file.size()});
  MT_HOLDS(again.ok()) << again.status().message();
  MT_HOLDS(again->tensors == header->tensors && again->metadata == header->metadata);
}

}  // namespace mtrun::fuzz
