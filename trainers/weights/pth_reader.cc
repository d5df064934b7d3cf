#include "trainers/weights/pth_reader.h"

#include <cstring>

#include "base/posix.h"
#include "base/status_macros.h"
#include "trainers/device/torch_status.h"
#include "trainers/weights/pth_layout.h"

namespace mtrun::trainers {
namespace {

at::Tensor Gather(const StoredTensor& stored) {
  at::Tensor tensor = at::empty(stored.sizes, TorchType(stored.type));
  if (stored.numel == 0) return tensor;
  const size_t element = stored.element_size();
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
  return Annotate(ParsePth(file), path);
}

}  // namespace mtrun::trainers
