#include "trainers/weights/pth_layout.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "trainers/weights/pickle.h"
#include "trainers/weights/zip_archive.h"

namespace mtrun::trainers {
namespace {

using Kind = PickleValue::Kind;

constexpr char kOrderedDict[] = "collections.OrderedDict";
constexpr char kRebuildTensor[] = "torch._utils._rebuild_tensor_v2";
constexpr char kRebuildParameter[] = "torch._utils._rebuild_parameter";

const std::map<std::string, StoredType>& StorageTypes() {
  static const std::map<std::string, StoredType> types{
      {"torch.FloatStorage", StoredType::kFloat32}, {"torch.DoubleStorage", StoredType::kFloat64},
      {"torch.HalfStorage", StoredType::kFloat16},  {"torch.BFloat16Storage", StoredType::kBFloat16},
      {"torch.LongStorage", StoredType::kInt64},    {"torch.IntStorage", StoredType::kInt32},
      {"torch.ShortStorage", StoredType::kInt16},   {"torch.CharStorage", StoredType::kInt8},
      {"torch.ByteStorage", StoredType::kUint8},    {"torch.BoolStorage", StoredType::kBool}};
  return types;
}

const std::set<std::string>& AllowedGlobals() {
  static const std::set<std::string> names = [] {
    std::set<std::string> all{kOrderedDict, kRebuildTensor, kRebuildParameter};
    for (const auto& type : StorageTypes()) all.insert(type.first);
    return all;
  }();
  return names;
}

bool IsCallOf(const PickleValue& value, const char* name) {
  return value.kind == Kind::kCall && value.callee->text == name;
}
bool IsDict(const PickleValue& value) { return value.kind == Kind::kDict || IsCallOf(value, kOrderedDict); }
bool IsTensor(const PickleValue& value) {
  return IsCallOf(value, kRebuildTensor) || IsCallOf(value, kRebuildParameter);
}

absl::Status BrokenLayout(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("broken weights: ", what));
}

struct Storage {
  std::string key;
  StoredType type = StoredType::kFloat32;
  int64_t numel = 0;
};

/// ("storage", type, key, location, numel) and, in old files, a view of it that nobody uses any more.
absl::StatusOr<Storage> ReadStorage(const PickleValue& value) {
  if (value.kind != Kind::kPersistent || value.argument->kind != Kind::kTuple)
    return BrokenLayout("a tensor without storage");
  const auto& id = value.argument->items;
  const bool fits = id.size() >= 5 && id[0]->text == "storage" && id[1]->kind == Kind::kGlobal &&
                    id[2]->kind == Kind::kString && id[4]->kind == Kind::kInt && id[4]->integer >= 0;
  if (!fits || (id.size() > 5 && id[5]->kind != Kind::kNone))
    return BrokenLayout("a storage of an unknown form");
  const auto type = StorageTypes().find(id[1]->text);
  if (type == StorageTypes().end()) return BrokenLayout(absl::StrCat(id[1]->text, " is no storage"));
  return Storage{id[2]->text, type->second, id[4]->integer};
}

std::optional<std::vector<int64_t>> ReadSizes(const PickleValue& value) {
  if (value.kind != Kind::kTuple) return std::nullopt;
  std::vector<int64_t> sizes;
  for (const PickleValue* item : value.items) {
    if (item->kind != Kind::kInt || !item->text.empty() || item->integer < 0) return std::nullopt;
    sizes.push_back(item->integer);
  }
  return sizes;
}

/// How a tensor lies in its storage, in elements.
struct Layout {
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0, numel = 1;
};

/// Sizes beside the zero of an empty tensor: their product must not overflow.
constexpr int64_t kMostOfEmpty = int64_t{1} << 31;

/// Only layouts that stay within a storage of `available` elements and do not repeat them (a few bytes could
/// stand for terabytes).
absl::StatusOr<Layout> ReadLayout(const PickleValue& offset, const PickleValue& sizes,
                                  const PickleValue& strides, int64_t available) {
  const auto size = ReadSizes(sizes), stride = ReadSizes(strides);
  if (!size || !stride || size->size() != stride->size() || offset.kind != Kind::kInt || offset.integer < 0) {
    return BrokenLayout("a tensor without a proper shape");
  }
  Layout layout{*size, *stride, offset.integer, 1};
  if (std::count(size->begin(), size->end(), 0) > 0) {
    layout.numel = 0;
    const bool plain = std::all_of(size->begin(), size->end(), [](int64_t n) { return n < kMostOfEmpty; });
    if (!plain || size->size() > 2) return BrokenLayout("an empty tensor of a strange shape");
    return layout;
  }
  __int128 last = layout.offset;
  for (size_t d = 0; d < size->size(); ++d) {
    last += static_cast<__int128>((*size)[d] - 1) * (*stride)[d];
    if (last >= available || layout.numel > available / (*size)[d])
      return BrokenLayout("a tensor goes beyond its storage");
    layout.numel *= (*size)[d];
  }
  if (last >= available) return BrokenLayout("a tensor goes beyond its storage");
  return layout;
}

/// Where the bytes of storages are; both formats supply one.
class StorageSource {
 public:
  virtual ~StorageSource() = default;
  virtual absl::StatusOr<absl::string_view> Bytes(const Storage& storage) const = 0;
};

class ZipStorages : public StorageSource {
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

class TensorReader {
 public:
  /// `most_bytes` that tensors may take together: those of a small file that share a storage could fill any
  /// memory.
  TensorReader(const StorageSource& storages, uint64_t most_bytes)
      : storages_(storages), bytes_left_(most_bytes) {}

  absl::StatusOr<StoredTensor> Read(const PickleValue& value) {
    const auto& arguments = value.argument->items;
    if (IsCallOf(value, kRebuildParameter)) {
      // One level: a parameter is made of a tensor, never of a parameter.
      if (arguments.empty() || !IsCallOf(*arguments[0], kRebuildTensor))
        return BrokenLayout("a parameter without tensor");
      return Read(*arguments[0]);
    }
    if (arguments.size() < 4) return BrokenLayout("a tensor without a proper shape");
    MT_ASSIGN_OR_RETURN(const Storage storage, ReadStorage(*arguments[0]));
    MT_ASSIGN_OR_RETURN(Layout layout,
                        ReadLayout(*arguments[1], *arguments[2], *arguments[3], storage.numel));
    return Find(storage, std::move(layout));
  }

 private:
  absl::StatusOr<StoredTensor> Find(const Storage& storage, Layout layout) {
    MT_ASSIGN_OR_RETURN(const absl::string_view bytes, storages_.Bytes(storage));
    const uint64_t element = SizeOf(storage.type);
    if (bytes.size() / element != static_cast<uint64_t>(storage.numel) || bytes.size() % element != 0) {
      return BrokenLayout(absl::StrCat("storage ", storage.key, " has ", bytes.size(), " bytes instead of ",
                                       storage.numel, " x ", element));
    }
    const uint64_t needed = static_cast<uint64_t>(layout.numel) * element;
    if (needed > bytes_left_) return BrokenLayout("tensors share more memory than weights do");
    bytes_left_ -= needed;
    return StoredTensor{.name = {},
                        .type = storage.type,
                        .sizes = std::move(layout.sizes),
                        .strides = std::move(layout.strides),
                        .offset = layout.offset,
                        .numel = layout.numel,
                        .storage = bytes};
  }

  const StorageSource& storages_;
  uint64_t bytes_left_;
};

bool IsStateDict(const PickleValue& value) {
  if (!IsDict(value) || value.items.empty()) return false;
  for (size_t i = 0; i < value.items.size(); i += 2) {
    if (value.items[i]->kind != Kind::kString || !IsTensor(*value.items[i + 1])) return false;
  }
  return true;
}

std::string KeysText(const PickleValue& dict) {
  constexpr size_t kMostNamed = 8;
  std::vector<std::string> keys;
  for (size_t i = 0; i < dict.items.size() && keys.size() < kMostNamed; i += 2)
    keys.push_back(dict.items[i]->text);
  return absl::StrJoin(keys, ", ");
}

absl::StatusOr<const PickleValue*> FindStateDict(const PickleValue& root) {
  if (IsStateDict(root)) return &root;
  if (!IsDict(root))
    return absl::InvalidArgumentError("it holds no dictionary of tensors; save model.state_dict()");
  for (const char* key : {"state_dict", "model_state_dict", "model", "net"}) {
    for (size_t i = 0; i < root.items.size(); i += 2) {
      if (root.items[i]->text != key) continue;
      if (IsStateDict(*root.items[i + 1])) return root.items[i + 1];
      break;
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("it holds no state dict, neither as a whole nor as state_dict, model_state_dict, model or "
                   "net; its keys are ",
                   KeysText(root)));
}

void StripModulePrefix(std::vector<StoredTensor>& tensors) {
  constexpr char kPrefix[] = "module.";
  for (const auto& tensor : tensors) {
    if (!absl::StartsWith(tensor.name, kPrefix)) return;
  }
  for (auto& tensor : tensors) tensor.name = tensor.name.substr(sizeof(kPrefix) - 1);
}

absl::StatusOr<std::vector<StoredTensor>> ReadTensors(const PickleValue& root, const StorageSource& storages,
                                                      uint64_t file_size) {
  constexpr uint64_t kMostShared = 8;
  MT_ASSIGN_OR_RETURN(const PickleValue* dict, FindStateDict(root));
  TensorReader reader(storages, kMostShared * file_size);
  std::vector<StoredTensor> tensors;
  std::set<absl::string_view> names;
  for (size_t i = 0; i < dict->items.size(); i += 2) {
    auto tensor = reader.Read(*dict->items[i + 1]);
    if (!tensor.ok()) return Annotate(tensor.status(), dict->items[i]->text);
    tensor->name = dict->items[i]->text;
    if (!names.insert(dict->items[i]->text).second)
      return BrokenLayout(absl::StrCat("two tensors named ", tensor->name));
    tensors.push_back(*std::move(tensor));
  }
  StripModulePrefix(tensors);
  return tensors;
}

// ---- the zip format ----

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
    return absl::InvalidArgumentError("a zip file, but not one of torch.save (no data.pkl in it)");
  if (const auto order = archive.Read(folder + "byteorder"); order.ok() && *order != "little") {
    return absl::InvalidArgumentError(absl::StrCat("its numbers are ", *order, "-endian"));
  }
  if (archive.entries().count(folder + "constants.pkl") != 0) {
    return absl::InvalidArgumentError("it is a TorchScript program; save model.state_dict() instead");
  }
  MT_ASSIGN_OR_RETURN(const absl::string_view data, archive.Read(folder + std::string(kData)));
  MT_ASSIGN_OR_RETURN(const Pickle pickle, ParsePickle(data, AllowedGlobals()));
  return ReadTensors(*pickle.root, ZipStorages(archive, folder), file.size());
}

// ---- the format before PyTorch 1.6: pickles of a magic number, a version, facts about the machine, the
// object and the list of storage keys, then each storage as its number of elements and its bytes ----

constexpr absl::string_view kLegacyStart("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 14);

class LegacyStorages : public StorageSource {
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

/// Element sizes by storage key. The object is walked once; a value that is shared is visited once.
absl::StatusOr<std::map<std::string, Storage>> StoragesOf(const Pickle& pickle) {
  std::map<std::string, Storage> storages;
  for (const PickleValue& value : pickle.values) {
    if (value.kind != Kind::kPersistent) continue;
    MT_ASSIGN_OR_RETURN(Storage storage, ReadStorage(value));
    storages[storage.key] = storage;
  }
  return storages;
}

absl::StatusOr<std::vector<StoredTensor>> ParseLegacy(absl::string_view file) {
  absl::string_view rest = file;
  std::vector<Pickle> pickles;
  for (int i = 0; i < 5; ++i) {
    MT_ASSIGN_OR_RETURN(Pickle pickle, ParsePickle(rest, AllowedGlobals()));
    rest.remove_prefix(pickle.size);
    pickles.push_back(std::move(pickle));
  }
  const Pickle& object = pickles[3];
  const PickleValue& keys = *pickles[4].root;
  if (keys.kind != Kind::kList) return BrokenLayout("no list of storages");
  MT_ASSIGN_OR_RETURN(const auto storages, StoragesOf(object));
  LegacyStorages places;
  for (const PickleValue* key : keys.items) {
    const auto storage = storages.find(key->text);
    if (storage == storages.end())
      return BrokenLayout(absl::StrCat("storage ", key->text, " belongs to no tensor"));
    int64_t numel = 0;
    if (rest.size() < sizeof(numel)) return BrokenLayout("cut off in its storages");
    std::memcpy(&numel, rest.data(), sizeof(numel));
    rest.remove_prefix(sizeof(numel));
    const uint64_t element = SizeOf(storage->second.type);
    if (numel != storage->second.numel || static_cast<uint64_t>(numel) > rest.size() / element) {
      return BrokenLayout(absl::StrCat("storage ", key->text, " is cut off or has another size"));
    }
    places.Add(key->text, rest.substr(0, numel * element));
    rest.remove_prefix(numel * element);
  }
  return ReadTensors(*object.root, places, file.size());
}

}  // namespace

uint64_t SizeOf(StoredType type) {
  switch (type) {
    case StoredType::kFloat64:
    case StoredType::kInt64:
      return 8;
    case StoredType::kFloat32:
    case StoredType::kInt32:
      return 4;
    case StoredType::kFloat16:
    case StoredType::kBFloat16:
    case StoredType::kInt16:
      return 2;
    case StoredType::kInt8:
    case StoredType::kUint8:
    case StoredType::kBool:
      return 1;
  }
  MT_CHECK(false) << "stored type " << static_cast<int>(type);
  return 1;
}

void CopyElements(const StoredTensor& stored, char* out) {
  const uint64_t element = SizeOf(stored.type);
  const char* const first = stored.storage.data() + static_cast<uint64_t>(stored.offset) * element;
  std::vector<int64_t> index(stored.sizes.size(), 0);
  int64_t from = 0;
  for (int64_t i = 0; i < stored.numel; ++i, out += element) {
    std::memcpy(out, first + static_cast<uint64_t>(from) * element, element);
    for (size_t d = index.size(); d-- > 0;) {
      if (stored.sizes[d] == 1) continue;  // its stride may be any number
      from += stored.strides[d];
      if (++index[d] < stored.sizes[d]) break;
      from -= stored.sizes[d] * stored.strides[d];
      index[d] = 0;
    }
  }
}

bool LooksLikePth(absl::string_view file) {
  return ZipArchive::LooksLikeZip(file) || absl::StartsWith(file, kLegacyStart);
}

absl::StatusOr<std::vector<StoredTensor>> ParsePthLayout(absl::string_view file) {
  if (ZipArchive::LooksLikeZip(file)) return ParseZip(file);
  if (absl::StartsWith(file, kLegacyStart)) return ParseLegacy(file);
  return absl::InvalidArgumentError("not a file of torch.save");
}

}  // namespace mtrun::trainers
