// The safetensors format: 8 bytes of little-endian header length, a JSON header, tensors one after the other
// (https://github.com/huggingface/safetensors). Needs no LibTorch. Pure functions over bytes; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace mtrun::datasets {

enum class DType {
  kBool,
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kU64,
  kI64,
  kF8E4M3,
  kF8E5M2,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kF16,
  kBF16,
  kF32,
  kF64
};

/// Returns the bytes of one element.
int64_t DTypeSize(DType dtype);
/// Returns the format's name, such as "U8" and "BF16".
const char* DTypeName(DType dtype);
std::optional<DType> ParseDType(const std::string& name);

/// One tensor: row-major, little-endian. `begin` and `end` are bytes from the start of the data section.
struct TensorInfo {
  std::string name;
  DType dtype = DType::kU8;
  std::vector<int64_t> shape = {};  // empty: one element
  int64_t begin = 0;
  int64_t end = 0;

  int64_t bytes() const { return end - begin; }
  bool operator==(const TensorInfo&) const = default;
};

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // in the order of their data
  std::map<std::string, std::string> metadata = {};
  int64_t data_offset = 0;  // start of the data section in the file
  int64_t data_bytes = 0;   // its length; the file ends there

  const TensorInfo* Find(const std::string& name) const;
  bool operator==(const SafetensorsHeader&) const = default;
};

/// Finds a tensor of an image shard. kDataLoss: there is none of this name, type and shape.
absl::StatusOr<const TensorInfo*> FindTensor(const SafetensorsHeader& header, const char* name, DType dtype,
                                             const std::vector<int64_t>& shape);

/// Lays out tensors in the given order (ignoring `begin` and `end`) and returns the header with the offsets
/// filled in. kInvalidArgument: a duplicate name, "__metadata__", a negative size, or a size beyond 2^63.
absl::StatusOr<SafetensorsHeader> LayOutTensors(std::vector<TensorInfo> tensors,
                                                std::map<std::string, std::string> metadata);

/// Returns the bytes before the data: length and JSON, padded with spaces so that data starts at a multiple
/// of 64. The same header gives the same bytes. kInvalidArgument: a name or value that is not UTF-8.
absl::StatusOr<std::string> EncodeSafetensorsHeader(const SafetensorsHeader& header);

/// Parses the header of a whole file in memory. Every offset in the result is inside `file`; tensors do not
/// overlap and leave no gap. kDataLoss: the file is shorter or longer than its header says; kInvalidArgument:
/// not safetensors, a malformed header, or a dtype that is not supported (complex numbers, less than a byte).
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::Span<const uint8_t> file);

/// Returns the tensor's bytes. REQUIRES: `header` was parsed from `file`, and `tensor` is one of its tensors.
absl::Span<const uint8_t> TensorBytes(absl::Span<const uint8_t> file, const SafetensorsHeader& header,
                                      const TensorInfo& tensor);

/// Writes a file beside `path`, fsyncs and renames it. `data[i]` belongs to `tensors[i]` and has its size.
absl::Status WriteSafetensorsFile(const std::string& path, std::vector<TensorInfo> tensors,
                                  const std::vector<absl::Span<const uint8_t>>& data,
                                  std::map<std::string, std::string> metadata);

}  // namespace mtrun::datasets
