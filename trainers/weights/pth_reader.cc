#include "trainers/weights/pth_reader.h"

#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "trainers/device/torch_status.h"
#include "trainers/weights/pth_layout.h"

namespace mtrun::trainers {
namespace {

at::ScalarType ToTorchType(StoredType type) {
  switch (type) {
    case StoredType::kFloat32:
      return at::kFloat;
    case StoredType::kFloat64:
      return at::kDouble;
    case StoredType::kFloat16:
      return at::kHalf;
    case StoredType::kBFloat16:
      return at::kBFloat16;
    case StoredType::kInt64:
      return at::kLong;
    case StoredType::kInt32:
      return at::kInt;
    case StoredType::kInt16:
      return at::kShort;
    case StoredType::kInt8:
      return at::kChar;
    case StoredType::kUint8:
      return at::kByte;
    case StoredType::kBool:
      return at::kBool;
  }
  MT_CHECK(false) << "stored type " << static_cast<int>(type);
  return at::kFloat;
}

/// A bool that is neither 0 nor 1 is undefined in C++.
at::Tensor Clean(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kBool ? tensor.view(at::kByte).ne(0) : tensor;
}

at::Tensor Gather(const StoredTensor& stored) {
  at::Tensor tensor = at::empty(stored.sizes, ToTorchType(stored.type));
  if (stored.numel == 0) return tensor;
  const size_t element = SizeOf(stored.type);
  auto* out = static_cast<char*>(tensor.mutable_data_ptr());
  const char* first = stored.storage.data() + static_cast<size_t>(stored.offset) * element;
  if (tensor.strides() == at::IntArrayRef(stored.strides)) {
    std::memcpy(out, first, static_cast<size_t>(stored.numel) * element);
    return Clean(tensor);
  }
  CopyElements(stored, out);
  return Clean(tensor);
}

constexpr size_t kStartBytes = 16;  // more than LooksLikePth looks at

absl::StatusOr<std::string> ReadStart(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  std::string start(kStartBytes, 0);
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<size_t>(file.gcount()));
  return start;
}

}  // namespace

absl::StatusOr<NamedTensors> ParsePth(absl::string_view file) {
  MT_ASSIGN_OR_RETURN(const std::vector<StoredTensor> stored, ParsePthLayout(file));
  NamedTensors tensors;
  MT_RETURN_IF_ERROR(TorchStatus("reading tensors", [&] {
    for (const StoredTensor& tensor : stored) tensors.emplace_back(tensor.name, Gather(tensor));
  }));
  return tensors;
}

absl::StatusOr<NamedTensors> LoadPth(const std::string& path) {
  MT_ASSIGN_OR_RETURN(const std::string file, ReadFile(path));
  auto tensors = ParsePth(file);
  if (!tensors.ok()) return Annotate(tensors.status(), path);
  return tensors;
}

absl::StatusOr<NamedTensors> LoadWeights(const std::string& path) {
  MT_ASSIGN_OR_RETURN(const std::string start, ReadStart(path));
  return LooksLikePth(start) ? LoadPth(path) : LoadTensors(path);
}

}  // namespace mtrun::trainers
