#include "trainers/weights/pth_layout.h"

#include <cstring>
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainers/weights/state_dict.h"
#include "trainers/weights/tar_layout.h"
#include "trainers/weights/zip_archive.h"

namespace mtrun::trainers {
namespace {

// ---- the zip format ----

class ZipStorages : public PersistentSource {
 public:
  ZipStorages(const ZipArchive& archive, std::string folder)
      : archive_(archive), folder_(std::move(folder)) {}
  absl::StatusOr<absl::string_view> Bytes(const Storage& storage) const override {
    return archive_.Read(absl::StrCat(folder_, "data/", storage.key));
  }

 private:
  const ZipArchive& archive_;
  const std::string folder_;
};

absl::StatusOr<std::vector<StoredTensor>> ParseZip(absl::string_view file) {
  constexpr absl::string_view kData = "data.pkl";
  MT_ASSIGN_OR_RETURN(const ZipArchive archive, ZipArchive::Open(file));
  std::string folder;
  int found = 0;
  for (const auto& entry : archive.entries()) {
    const absl::string_view name = entry.first;
    if (!absl::EndsWith(name, absl::StrCat("/", kData))) continue;
    folder = std::string(name.substr(0, name.size() - kData.size()));
    ++found;
  }
  if (found != 1)
    return absl::InvalidArgumentError("a zip file that torch.save did not write (it contains no data.pkl)");
  if (const auto order = archive.Read(folder + "byteorder"); order.ok() && *order != "little") {
    return absl::InvalidArgumentError(absl::StrCat("its numbers are ", *order, "-endian"));
  }
  if (archive.entries().count(folder + "constants.pkl") != 0) {
    return absl::InvalidArgumentError("it is a TorchScript program; save model.state_dict() instead");
  }
  MT_ASSIGN_OR_RETURN(const absl::string_view data, archive.Read(folder + std::string(kData)));
  MT_ASSIGN_OR_RETURN(const Pickle pickle, ParsePickle(data));
  return ReadStateDict(*pickle.root, ZipStorages(archive, folder), file.size());
}

// ---- the format before PyTorch 1.6: pickles of a magic number, a version, facts about the machine, the
// object and the list of storage keys, then each storage as its number of elements and its bytes ----

constexpr absl::string_view kLegacyStart("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 14);

class LegacyStorages : public PersistentSource {
 public:
  void Add(const std::string& key, absl::string_view bytes) { places_[key] = bytes; }
  absl::StatusOr<absl::string_view> Bytes(const Storage& storage) const override {
    const auto found = places_.find(storage.key);
    if (found == places_.end()) return BrokenLayout(absl::StrCat("storage ", storage.key, " is missing"));
    return found->second;
  }

 private:
  std::map<std::string, absl::string_view> places_;
};

/// Returns the storages by key. Visits each value once, even if it is shared.
absl::StatusOr<std::map<std::string, Storage>> StoragesOf(const Pickle& pickle) {
  std::map<std::string, Storage> storages;
  for (const PickleValue& value : pickle.values) {
    if (value.kind != PickleValue::Kind::kPersistent || NamesObject(value)) continue;
    MT_ASSIGN_OR_RETURN(Storage storage, ReadStorage(value));
    storages[storage.key] = storage;
  }
  return storages;
}

absl::StatusOr<std::vector<StoredTensor>> ParseLegacy(absl::string_view file) {
  absl::string_view rest = file;
  std::vector<Pickle> pickles;
  for (int i = 0; i < 5; ++i) {
    MT_ASSIGN_OR_RETURN(Pickle pickle, ParsePickle(rest));
    rest.remove_prefix(pickle.size);
    pickles.push_back(std::move(pickle));
  }
  const Pickle& object = pickles[3];
  const PickleValue& keys = *pickles[4].root;
  if (keys.kind != PickleValue::Kind::kList) return BrokenLayout("the list of storages is missing");
  MT_ASSIGN_OR_RETURN(const auto storages, StoragesOf(object));
  LegacyStorages places;
  for (const PickleValue* key : keys.items) {
    const auto storage = storages.find(key->text);
    if (storage == storages.end())
      return BrokenLayout(absl::StrCat("storage ", key->text, " belongs to no tensor"));
    int64_t numel = 0;
    if (rest.size() < sizeof(numel)) return BrokenLayout("truncated in its storages");
    std::memcpy(&numel, rest.data(), sizeof(numel));
    rest.remove_prefix(sizeof(numel));
    const auto element = static_cast<uint64_t>(storage->second.element);
    if (numel != storage->second.numel || static_cast<uint64_t>(numel) > rest.size() / element) {
      return BrokenLayout(absl::StrCat("storage ", key->text, " is truncated or has a different size"));
    }
    places.Add(key->text, rest.substr(0, numel * element));
    rest.remove_prefix(numel * element);
  }
  return ReadStateDict(*object.root, places, file.size());
}

}  // namespace

bool LooksLikePth(absl::string_view file) {
  return ZipArchive::LooksLikeZip(file) || absl::StartsWith(file, kLegacyStart) || LooksLikeTar(file);
}

absl::StatusOr<std::vector<StoredTensor>> ParsePthLayout(absl::string_view file) {
  if (ZipArchive::LooksLikeZip(file)) return ParseZip(file);
  if (absl::StartsWith(file, kLegacyStart)) return ParseLegacy(file);
  if (LooksLikeTar(file)) return ParseTarLayout(file);
  return absl::InvalidArgumentError("not a file that torch.save wrote");
}

}  // namespace mtrun::trainers
