#include <string>
#include <vector>

#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/invariant.h"
#include "trainers/weights/file_kind.h"
#include "trainers/weights/pickle.h"
#include "trainers/weights/pth_layout.h"
#include "trainers/weights/zip_archive.h"

namespace mtrun::fuzz {
namespace {

using trainers::PickleValue;

/// Checks that each value is data: a call, too, is a name with its arguments.
void ReadPickle(absl::string_view bytes) {
  const auto pickle = trainers::ParsePickle(bytes);
  if (!pickle.ok()) return;
  MT_HOLDS(pickle->root != nullptr && pickle->size <= bytes.size());
  for (const PickleValue& value : pickle->values) {
    const bool call = value.kind == PickleValue::Kind::kCall;
    MT_HOLDS(call == (value.callee != nullptr));
    MT_HOLDS((call || value.kind == PickleValue::Kind::kPersistent) == (value.argument != nullptr));
    MT_HOLDS(!call || value.argument->kind == PickleValue::Kind::kTuple);
    MT_HOLDS(!(call || value.kind == PickleValue::Kind::kDict) || value.items.size() % 2 == 0);
    for (const PickleValue* item : value.items) MT_HOLDS(item != nullptr);
  }
}

/// Reads every element of small tensors, so that a sanitizer detects a layout beyond the file.
void ReadTensors(absl::string_view file) {
  constexpr uint64_t kMaxBytes = 1 << 20;
  trainers::OtherKind(file.substr(0, trainers::kPthStartBytes));
  const auto tensors = trainers::ParsePthLayout(file);
  if (!tensors.ok()) return;
  for (const trainers::StoredTensor& tensor : *tensors) {
    MT_HOLDS(tensor.sizes.size() == tensor.strides.size() && tensor.numel >= 0) << tensor.name;
    MT_HOLDS(tensor.storage.data() >= file.data() &&
             tensor.storage.data() + tensor.storage.size() <= file.data() + file.size());
    const uint64_t bytes = static_cast<uint64_t>(tensor.numel) * tensor.element_size();
    std::vector<char> out(bytes <= kMaxBytes ? bytes : 0);
    if (!out.empty()) trainers::CopyElements(tensor, out.data());
  }
}

}  // namespace

void FuzzPickle(std::string_view bytes) {
  const absl::string_view file(bytes.data(), bytes.size());
  ReadTensors(file);
  if (!trainers::ZipArchive::LooksLikeZip(file)) return ReadPickle(file);
  const auto archive = trainers::ZipArchive::Open(file);
  if (!archive.ok()) return;
  for (const auto& [name, entry] : archive->entries()) {
    const auto content = archive->Read(name);
    if (content.ok()) ReadPickle(*content);
  }
}

}  // namespace mtrun::fuzz
