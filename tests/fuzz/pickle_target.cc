#include <set>
#include <string>

#include "base/status_macros.h"
#include "tests/fuzz/fuzz_targets.h"
#include "trainers/engine/pickle.h"
#include "trainers/engine/zip_archive.h"

namespace mtrun::fuzz {
namespace {

const std::set<std::string>& Allowed() {
  static const std::set<std::string> names = {"collections.OrderedDict", "torch._utils._rebuild_tensor_v2",
                                              "torch.FloatStorage"};
  return names;
}

void ReadPickle(absl::string_view bytes) {
  const auto pickle = engine::ParsePickle(bytes, Allowed());
  if (!pickle.ok()) return;
  MT_CHECK(pickle->root != nullptr && pickle->size <= bytes.size());
  for (const engine::PickleValue& value : pickle->values) {
    MT_CHECK(value.kind != engine::PickleValue::Kind::kGlobal || Allowed().contains(value.text))
        << value.text;
    for (const engine::PickleValue* item : value.items) MT_CHECK(item != nullptr);
  }
}

}  // namespace

void FuzzPickle(std::string_view bytes) {
  const absl::string_view file(bytes.data(), bytes.size());
  if (!engine::ZipArchive::LooksLikeZip(file)) return ReadPickle(file);
  const auto archive = engine::ZipArchive::Open(file);
  if (!archive.ok()) return;
  for (const auto& [name, entry] : archive->entries()) {
    const auto content = archive->Read(name);
    if (content.ok()) ReadPickle(*content);
  }
}

}  // namespace mtrun::fuzz
