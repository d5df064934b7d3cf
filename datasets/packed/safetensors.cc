#include "datasets/packed/safetensors.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json_text.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "nlohmann/json.hpp"

namespace mtrun::datasets {
namespace {

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit
constexpr int64_t kAlignment = 64;
constexpr int kMaxJsonDepth = 3;  // { "tensor": { "shape": [
constexpr char kMetadata[] = "__metadata__";

struct DTypeRow {
  DType dtype;
  const char* name;
  int64_t size;
};
constexpr DTypeRow kDTypes[] = {{DType::kBool, "BOOL", 1},
                                {DType::kU8, "U8", 1},
                                {DType::kI8, "I8", 1},
                                {DType::kU16, "U16", 2},
                                {DType::kI16, "I16", 2},
                                {DType::kU32, "U32", 4},
                                {DType::kI32, "I32", 4},
                                {DType::kU64, "U64", 8},
                                {DType::kI64, "I64", 8},
                                {DType::kF8E4M3, "F8_E4M3", 1},
                                {DType::kF8E5M2, "F8_E5M2", 1},
                                {DType::kF8E4M3Fnuz, "F8_E4M3FNUZ", 1},
                                {DType::kF8E5M2Fnuz, "F8_E5M2FNUZ", 1},
                                {DType::kF16, "F16", 2},
                                {DType::kBF16, "BF16", 2},
                                {DType::kF32, "F32", 4},
                                {DType::kF64, "F64", 8}};

const DTypeRow& Row(DType dtype) {
  const auto* row = std::ranges::find(kDTypes, dtype, &DTypeRow::dtype);
  MT_CHECK(row != std::end(kDTypes)) << "dtype " << static_cast<int>(dtype);
  return *row;
}

absl::Status Malformed(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("malformed safetensors header: ", AsPlainText(what)));
}

/// Returns the bytes of a tensor, or an error for a negative or overflowing size.
absl::StatusOr<int64_t> ByteSize(const TensorInfo& tensor) {
  int64_t bytes = DTypeSize(tensor.dtype);
  for (const int64_t dimension : tensor.shape) {
    if (dimension < 0 || __builtin_mul_overflow(bytes, dimension, &bytes)) {
      return Malformed(absl::StrCat("tensor \"", tensor.name, "\" has an impossible shape"));
    }
  }
  return bytes;
}

absl::StatusOr<int64_t> NonNegative(const nlohmann::json& value, const std::string& what) {
  const std::optional<int64_t> number = WholeNumber<int64_t>(value);
  if (number && *number >= 0) return *number;
  return Malformed(absl::StrCat(what, " is not a whole number from 0 to 2^63-1"));
}

absl::StatusOr<TensorInfo> ParseTensor(const std::string& name, const nlohmann::json& entry) {
  const std::string what = absl::StrCat("tensor \"", name, "\"");
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") ||
      !entry.contains("data_offsets")) {
    return Malformed(absl::StrCat(what, " lacks dtype, shape or data_offsets"));
  }
  const nlohmann::json &dtype = entry["dtype"], &shape = entry["shape"], &offsets = entry["data_offsets"];
  if (!dtype.is_string() || !shape.is_array() || !offsets.is_array() || offsets.size() != 2) {
    return Malformed(absl::StrCat(what, " has a dtype, shape or data_offsets of the wrong kind"));
  }
  TensorInfo tensor{.name = name};
  const auto parsed = ParseDType(dtype.get<std::string>());
  if (!parsed) {
    return absl::InvalidArgumentError(AsPlainText(
        absl::StrCat(what, " has the dtype ", dtype.get<std::string>(), ", which is not supported")));
  }
  tensor.dtype = *parsed;
  for (const nlohmann::json& dimension : shape) {
    MT_ASSIGN_OR_RETURN(tensor.shape.emplace_back(),
                        NonNegative(dimension, absl::StrCat("a dimension of ", what)));
  }
  MT_ASSIGN_OR_RETURN(tensor.begin, NonNegative(offsets[0], absl::StrCat("an offset of ", what)));
  MT_ASSIGN_OR_RETURN(tensor.end, NonNegative(offsets[1], absl::StrCat("an offset of ", what)));
  MT_ASSIGN_OR_RETURN(const int64_t bytes, ByteSize(tensor));
  if (tensor.begin > tensor.end || tensor.bytes() != bytes) {
    return Malformed(absl::StrCat(what, " needs ", bytes, " bytes, but its data_offsets are [", tensor.begin,
                                  ", ", tensor.end, "]"));
  }
  return tensor;
}

absl::Status ParseMetadata(const nlohmann::json& entry, std::map<std::string, std::string>* metadata) {
  if (!entry.is_object()) return Malformed("__metadata__ is not an object");
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) return Malformed(absl::StrCat("metadata \"", key, "\" is not a string"));
    (*metadata)[key] = value.get<std::string>();
  }
  return absl::OkStatus();
}

/// Checks that tensors sorted by offset are contiguous from 0 to the end of the file.
absl::Status CheckCoverage(const SafetensorsHeader& header) {
  int64_t at = 0;
  for (const TensorInfo& tensor : header.tensors) {
    if (tensor.end > header.data_bytes) {
      return absl::DataLossError(absl::StrCat("truncated: tensor \"", AsPlainText(tensor.name),
                                              "\" ends at byte ", tensor.end,
                                              " of the data, but the file has ", header.data_bytes));
    }
    if (tensor.begin != at)
      return Malformed(absl::StrCat("a gap or an overlap before tensor \"", tensor.name, "\""));
    at = tensor.end;
  }
  if (at == header.data_bytes) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(header.data_bytes - at, " bytes follow the last tensor"));
}

/// Returns the length of the JSON text, checked against the file.
absl::StatusOr<int64_t> HeaderLength(absl::Span<const uint8_t> file) {
  if (file.size() < kLengthBytes)
    return absl::DataLossError(absl::StrCat("truncated: only ", file.size(), " bytes"));
  uint64_t length = 0;
  for (int i = 0; i < kLengthBytes; ++i) length |= uint64_t{file[i]} << (8 * i);
  if (length > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(
        "not a safetensors file: it does not begin with the length of a header");
  }
  if (length > file.size() - kLengthBytes) {
    return absl::DataLossError(
        absl::StrCat("truncated: the header has ", length, " bytes, the file ", file.size()));
  }
  return static_cast<int64_t>(length);
}

}  // namespace

int64_t DTypeSize(DType dtype) { return Row(dtype).size; }
const char* DTypeName(DType dtype) { return Row(dtype).name; }

std::optional<DType> ParseDType(const std::string& name) {
  for (const DTypeRow& row : kDTypes) {
    if (name == row.name) return row.dtype;
  }
  return std::nullopt;
}

const TensorInfo* SafetensorsHeader::Find(const std::string& name) const {
  for (const TensorInfo& tensor : tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

absl::StatusOr<const TensorInfo*> FindTensor(const SafetensorsHeader& header, const char* name, DType dtype,
                                             const std::vector<int64_t>& shape) {
  const TensorInfo* tensor = header.Find(name);
  if (tensor != nullptr && tensor->dtype == dtype && tensor->shape == shape) return tensor;
  return absl::DataLossError(absl::StrCat("tensor \"", name, "\" is not ", DTypeName(dtype), " [",
                                          absl::StrJoin(shape, ", "), "], as the index requires"));
}

absl::StatusOr<SafetensorsHeader> LayOutTensors(std::vector<TensorInfo> tensors,
                                                std::map<std::string, std::string> metadata) {
  std::set<std::string> names{kMetadata};
  int64_t at = 0;
  for (TensorInfo& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      return absl::InvalidArgumentError(absl::StrCat("tensor name \"", tensor.name, "\" is already in use"));
    }
    MT_ASSIGN_OR_RETURN(const int64_t bytes, ByteSize(tensor));
    tensor.begin = at;
    if (__builtin_add_overflow(at, bytes, &at)) return Malformed("the tensors are too large in total");
    tensor.end = at;
  }
  SafetensorsHeader header{.tensors = std::move(tensors), .metadata = std::move(metadata), .data_bytes = at};
  MT_ASSIGN_OR_RETURN(const std::string encoded, EncodeSafetensorsHeader(header));
  header.data_offset = static_cast<int64_t>(encoded.size());
  return header;
}

absl::StatusOr<std::string> EncodeSafetensorsHeader(const SafetensorsHeader& header) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!header.metadata.empty()) json[kMetadata] = header.metadata;
  for (const TensorInfo& tensor : header.tensors) {
    json[tensor.name] = {{"dtype", DTypeName(tensor.dtype)},
                         {"shape", tensor.shape},
                         {"data_offsets", {tensor.begin, tensor.end}}};
  }
  std::string text;
  try {
    text = json.dump();
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("a tensor name or metadata is not UTF-8: ", error.what()));
  }
  const int64_t used = kLengthBytes + static_cast<int64_t>(text.size());
  text.append((kAlignment - used % kAlignment) % kAlignment, ' ');
  std::string encoded;
  for (int i = 0; i < kLengthBytes; ++i)
    encoded.push_back(static_cast<char>(uint64_t{text.size()} >> (8 * i)));
  return encoded + text;
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::Span<const uint8_t> file) {
  MT_ASSIGN_OR_RETURN(const int64_t length, HeaderLength(file));
  const char* begin = reinterpret_cast<const char*>(file.data()) + kLengthBytes;
  if (length == 0 || *begin != '{')
    return absl::InvalidArgumentError("not a safetensors file: no '{' after the length");
  const auto json = ParseJson({begin, static_cast<size_t>(length)}, kMaxHeaderBytes, kMaxJsonDepth);
  if (!json.ok()) return Malformed(std::string(json.status().message()));

  SafetensorsHeader header;
  header.data_offset = kLengthBytes + length;
  header.data_bytes = static_cast<int64_t>(file.size()) - header.data_offset;
  for (const auto& [name, entry] : json->items()) {
    if (name == kMetadata) {
      MT_RETURN_IF_ERROR(ParseMetadata(entry, &header.metadata));
    } else {
      MT_ASSIGN_OR_RETURN(header.tensors.emplace_back(), ParseTensor(name, entry));
    }
  }
  std::sort(header.tensors.begin(), header.tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  MT_RETURN_IF_ERROR(CheckCoverage(header));
  return header;
}

absl::Span<const uint8_t> TensorBytes(absl::Span<const uint8_t> file, const SafetensorsHeader& header,
                                      const TensorInfo& tensor) {
  const int64_t begin = header.data_offset + tensor.begin;
  MT_CHECK(begin + tensor.bytes() <= static_cast<int64_t>(file.size())) << tensor.name;
  return file.subspan(begin, tensor.bytes());
}

absl::Status WriteSafetensorsFile(const std::string& path, std::vector<TensorInfo> tensors,
                                  const std::vector<absl::Span<const uint8_t>>& data,
                                  std::map<std::string, std::string> metadata) {
  MT_ASSIGN_OR_RETURN(const SafetensorsHeader header, LayOutTensors(std::move(tensors), std::move(metadata)));
  MT_CHECK(data.size() == header.tensors.size())
      << data.size() << " spans, " << header.tensors.size() << " tensors";
  MT_ASSIGN_OR_RETURN(std::string bytes, EncodeSafetensorsHeader(header));
  bytes.reserve(bytes.size() + header.data_bytes);
  for (size_t i = 0; i < data.size(); ++i) {
    MT_CHECK(static_cast<int64_t>(data[i].size()) == header.tensors[i].bytes()) << header.tensors[i].name;
    bytes.append(reinterpret_cast<const char*>(data[i].data()), data[i].size());
  }
  return WriteFileAtomically(path, bytes);
}

}  // namespace mtrun::datasets
