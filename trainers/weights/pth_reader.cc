#include "trainers/weights/pth_reader.h"

#include <cstring>

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
    case StoredType::kFloat8E4M3:
      return at::kFloat8_e4m3fn;
    case StoredType::kFloat8E5M2:
      return at::kFloat8_e5m2;
    case StoredType::kFloat8E4M3Fnuz:
      return at::kFloat8_e4m3fnuz;
    case StoredType::kFloat8E5M2Fnuz:
      return at::kFloat8_e5m2fnuz;
    case StoredType::kUint64:
      return at::kUInt64;
    case StoredType::kUint32:
      return at::kUInt32;
    case StoredType::kUint16:
      return at::kUInt16;
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

at::Tensor Gather(const StoredTensor& stored) {
  at::Tensor tensor = at::empty(stored.sizes, ToTorchType(stored.type));
  if (stored.numel == 0) return tensor;
  const size_t element = SizeOf(stored.type);
  auto* out = static_cast<char*>(tensor.mutable_data_ptr());
  const char* first = stored.storage.data() + static_cast<size_t>(stored.offset) * element;
  if (tensor.strides() == at::IntArrayRef(stored.strides)) {
    std::memcpy(out, first, static_cast<size_t>(stored.numel) * element);
  } else {
    CopyElements(stored, out);
  }
  return stored.negative ? tensor.neg() : CleanBools(tensor);
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

}  // namespace mtrun::trainers
