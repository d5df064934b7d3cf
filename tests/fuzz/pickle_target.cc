#include <set>
#include <string>

#include "base/status_macros.h"
#include "tests/fuzz/fuzz_targets.h"
#include "trainers/weights/pickle.h"
#include "trainers/weights/zip_archive.h"

namespace mtrun::fuzz {
namespace {

const std::set<std::string>& Allowed() {
  static const std::set<std::string> names = {"collections.OrderedDict", "torch._utils._rebuild_tensor_v2",
                                              "torch.FloatStorage"};
  return names;
}

void ReadPickle(absl::string_view bytes) {
  const auto pickle = trainers::ParsePickle(bytes, Allowed());
  if (!pickle.ok()) return;
  MT_CHECK(pickle->root != nullptr && pickle->size <= bytes.size());
  for (const trainers::PickleValue& value : pickle->values) {
    MT_CHECK(value.kind != trainers::PickleValue::Kind::kGlobal || Allowed().contains(value.text))
        << value.text;
    for (const trainers::PickleValue* item : value.items) MT_CHECK(item != nullptr);
  }
}

}  // namespace

void FuzzPickle(std::string_view bytes) {
  const absl::string_view file(bytes.data(), bytes.size());
  if (!trainers::ZipArchive::LooksLikeZip(file)) return ReadPickle(file);
  const auto archive = trainers::ZipArchive::Open(file);
  if (!archive.ok()) return;
  for (const auto& [name, entry] : archive->entries()) {
    const auto content = archive->Read(name);
    if (content.ok()) ReadPickle(*content);
  }
}

}  // namespace mtrun::fuzz
