#include "trainers/weights/safetensors.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "datasets/files/mapped_file.h"

namespace mtrun::trainers {
namespace {

using datasets::DType;

constexpr std::pair<DType, at::ScalarType> kTypes[] = {{DType::kBool, at::kBool},
                                                       {DType::kU8, at::kByte},
                                                       {DType::kI8, at::kChar},
                                                       {DType::kU16, at::kUInt16},
                                                       {DType::kI16, at::kShort},
                                                       {DType::kU32, at::kUInt32},
                                                       {DType::kI32, at::kInt},
                                                       {DType::kU64, at::kUInt64},
                                                       {DType::kI64, at::kLong},
                                                       {DType::kF8E4M3, at::kFloat8_e4m3fn},
                                                       {DType::kF8E5M2, at::kFloat8_e5m2},
                                                       {DType::kF8E4M3Fnuz, at::kFloat8_e4m3fnuz},
                                                       {DType::kF8E5M2Fnuz, at::kFloat8_e5m2fnuz},
                                                       {DType::kF16, at::kHalf},
                                                       {DType::kBF16, at::kBFloat16},
                                                       {DType::kF32, at::kFloat},
                                                       {DType::kF64, at::kDouble}};

std::string ShapeText(at::IntArrayRef shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

constexpr size_t kMaxNamed = 3;

/// Appends "missing a, b, c and 4 more".
void AppendProblems(std::vector<std::string>& out, const char* kind, const std::vector<std::string>& names) {
  if (names.empty()) return;
  const size_t shown = std::min(names.size(), kMaxNamed);
  std::string text = absl::StrCat(kind, " ", absl::StrJoin(names.begin(), names.begin() + shown, ", "));
  if (names.size() > shown) absl::StrAppend(&text, " and ", names.size() - shown, " more");
  out.push_back(std::move(text));
}

/// Returns why `file` does not fit the state `model`, or "" if it fits.
std::string Mismatch(const std::map<std::string, at::Tensor>& file, const NamedTensors& model) {
  std::vector<std::string> missing, other_shape, unexpected, problems;
  std::map<std::string, at::Tensor> rest = file;
  for (const auto& [name, tensor] : model) {
    const auto found = rest.find(name);
    if (found == rest.end()) {
      missing.push_back(name);
      continue;
    }
    if (found->second.sizes() != tensor.sizes()) {
      other_shape.push_back(absl::StrCat(name, " is ", ShapeText(found->second.sizes()), " in the file and ",
                                         ShapeText(tensor.sizes()), " in the model"));
    }
    rest.erase(found);
  }
  for (const auto& item : rest) unexpected.push_back(item.first);
  AppendProblems(problems, "missing", missing);
  AppendProblems(problems, "different shape:", other_shape);
  AppendProblems(problems, "unexpected", unexpected);
  return absl::StrJoin(problems, "; ");
}

}  // namespace

at::Tensor CleanBools(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kBool ? tensor.view(at::kByte).ne(0) : tensor;
}

at::ScalarType TorchType(DType type) {
  for (const auto& [file, torch] : kTypes) {
    if (file == type) return torch;
  }
  MT_CHECK(false) << "dtype " << static_cast<int>(type);
  return at::kByte;
}

std::optional<DType> FileDType(at::ScalarType type) {
  for (const auto& [file, torch] : kTypes) {
    if (torch == type) return file;
  }
  return std::nullopt;
}

std::map<std::string, std::string> OfPyTorch(std::map<std::string, std::string> metadata) {
  metadata.emplace("format", "pt");
  return metadata;
}

absl::Status SaveTensors(const std::string& path, const NamedTensors& tensors,
                         const std::map<std::string, std::string>& metadata) {
  std::vector<datasets::TensorInfo> infos;
  std::vector<absl::Span<const uint8_t>> data;
  std::vector<at::Tensor> kept;  // owns what `data` points to
  for (const auto& [name, tensor] : tensors) {
    const std::optional<DType> type = FileDType(tensor.scalar_type());
    if (!type) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": tensor ", name, " has a dtype that safetensors does not support"));
    }
    kept.push_back(tensor.detach().to(at::kCPU).contiguous());
    infos.push_back({.name = name, .dtype = *type, .shape = kept.back().sizes().vec()});
    data.emplace_back(static_cast<const uint8_t*>(kept.back().const_data_ptr()), kept.back().nbytes());
  }
  return datasets::WriteSafetensorsFile(path, std::move(infos), data, OfPyTorch(metadata));
}

absl::StatusOr<NamedTensors> LoadTensors(const std::string& path) {
  MT_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return Annotate(ParseTensors(text), path);
}

absl::StatusOr<NamedTensors> ParseTensors(std::string_view text) {
  const absl::Span<const uint8_t> file(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  MT_ASSIGN_OR_RETURN(const datasets::SafetensorsHeader header, datasets::ParseSafetensorsHeader(file));
  NamedTensors tensors;
  for (const auto& info : header.tensors) {
    at::Tensor tensor = at::empty(info.shape, TorchType(info.dtype));
    const absl::Span<const uint8_t> bytes = datasets::TensorBytes(file, header, info);
    if (!bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
    tensors.emplace_back(info.name, CleanBools(tensor));
  }
  return tensors;
}

absl::StatusOr<std::map<std::string, std::string>> ReadMetadata(const std::string& path) {
  MT_ASSIGN_OR_RETURN(const datasets::MappedFile file, datasets::MappedFile::Open(path));
  MT_ASSIGN_OR_RETURN(auto header, Annotate(datasets::ParseSafetensorsHeader(file.bytes()), path));
  return std::move(header.metadata);
}

NamedTensors StateDict(const torch::nn::Module& module) {
  NamedTensors state;
  for (const auto& item : module.named_parameters()) state.emplace_back(item.key(), item.value().detach());
  for (const auto& item : module.named_buffers()) state.emplace_back(item.key(), item.value().detach());
  return state;
}

absl::Status CopyTensors(const NamedTensors& from, const NamedTensors& to) {
  const std::map<std::string, at::Tensor> source(from.begin(), from.end());
  if (const std::string mismatch = Mismatch(source, to); !mismatch.empty()) {
    return absl::InvalidArgumentError(mismatch);
  }
  torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : to) at::Tensor(tensor).copy_(source.at(name));
  return absl::OkStatus();
}

}  // namespace mtrun::trainers
