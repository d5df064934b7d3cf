#include "trainers/weights/tar_layout.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainers/weights/pickle.h"
#include "trainers/weights/state_dict.h"

namespace mtrun::trainers {
namespace {

using Kind = PickleValue::Kind;

// POSIX ustar, as Python's tarfile writes it: positions in an entry's header, and its size.
constexpr size_t kBlock = 512, kNameSize = 100, kSizeAt = 124, kSizeSize = 12, kMagicAt = 257;

/// Returns the files of an archive by name, up to its end or the first entry that is not one.
std::map<std::string, absl::string_view> FilesOf(absl::string_view rest) {
  std::map<std::string, absl::string_view> files;
  while (LooksLikeTar(rest)) {
    const std::string name(rest.data(), strnlen(rest.data(), kNameSize));
    const std::string octal(rest.data() + kSizeAt, strnlen(rest.data() + kSizeAt, kSizeSize));
    uint64_t size = 0;
    for (const char digit : octal) {
      if (digit == ' ') continue;
      if (digit < '0' || digit > '7') return files;
      size = size * 8 + static_cast<uint64_t>(digit - '0');
    }
    if (size > rest.size() - kBlock) return files;
    files[name] = rest.substr(kBlock, size);
    rest.remove_prefix(std::min<uint64_t>(rest.size(), kBlock + (size + kBlock - 1) / kBlock * kBlock));
  }
  return files;
}

/// Reads pickles and numbers from an entry, one after the other.
class Reader {
 public:
  explicit Reader(absl::string_view rest) : rest_(rest) {}

  absl::StatusOr<Pickle> Next() {
    absl::StatusOr<Pickle> pickle = ParsePickle(rest_);
    if (pickle.ok()) rest_.remove_prefix(pickle->size);
    return pickle;
  }
  absl::StatusOr<int64_t> Count() {
    MT_ASSIGN_OR_RETURN(const Pickle pickle, Next());
    if (pickle.root->kind == Kind::kInt && pickle.root->integer >= 0) return pickle.root->integer;
    return BrokenLayout("a count is missing");
  }
  /// Returns nothing if the entry is too short.
  std::optional<int64_t> Number() {
    const std::optional<absl::string_view> raw = Take(sizeof(int64_t));
    if (!raw) return std::nullopt;
    int64_t value = 0;
    std::memcpy(&value, raw->data(), sizeof(value));
    return value;
  }
  std::optional<std::vector<int64_t>> Numbers(uint64_t count) {
    if (count > rest_.size() / sizeof(int64_t)) return std::nullopt;
    std::vector<int64_t> values(count);
    for (int64_t& value : values) value = *Number();
    return values;
  }
  std::optional<absl::string_view> Take(uint64_t size) {
    if (size > rest_.size()) return std::nullopt;
    const absl::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

 private:
  absl::string_view rest_;
};

struct PlacedStorage {
  Storage what;
  absl::string_view bytes;
};

/// Storages and tensors by their keys, which are numbers.
class TarContents : public PersistentSource {
 public:
  absl::Status ReadStorages(absl::string_view entry) {
    Reader reader(entry);
    MT_ASSIGN_OR_RETURN(const int64_t count, reader.Count());
    for (int64_t i = 0; i < count; ++i) MT_RETURN_IF_ERROR(ReadOneStorage(reader));
    MT_ASSIGN_OR_RETURN(const Pickle views, reader.Next());
    for (const PickleValue* view : views.root->items) MT_RETURN_IF_ERROR(ReadView(*view));
    return absl::OkStatus();
  }
  absl::Status ReadTensors(absl::string_view entry) {
    Reader reader(entry);
    MT_ASSIGN_OR_RETURN(const int64_t count, reader.Count());
    for (int64_t i = 0; i < count; ++i) MT_RETURN_IF_ERROR(ReadOneTensor(reader));
    return absl::OkStatus();
  }
  absl::StatusOr<absl::string_view> Bytes(const Storage&) const override {
    return BrokenLayout("a storage in an unknown form");
  }
  absl::StatusOr<StoredTensor> Tensor(const PickleValue& name) const override {
    int64_t key = name.integer;
    const bool number = name.kind == Kind::kInt || absl::SimpleAtoi(name.text, &key);
    const auto found = tensors_.find(key);
    if (!number || found == tensors_.end()) return BrokenLayout("a tensor is missing");
    if (found->second.ok()) return *found->second;
    return found->second.status();
  }

 private:
  /// (key, location, type), the number of elements, and these.
  absl::Status ReadOneStorage(Reader& reader) {
    MT_ASSIGN_OR_RETURN(const Pickle pickle, reader.Next());
    const auto& about = pickle.root->items;
    if (about.size() != 3 || about[0]->kind != Kind::kInt || about[2]->kind != Kind::kGlobal)
      return BrokenLayout("a storage in an unknown form");
    MT_ASSIGN_OR_RETURN(Storage storage, StorageOfType(about[2]->text));
    const std::optional<int64_t> numel = reader.Number();
    if (!numel || *numel < 0 || *numel > INT64_MAX / storage.element)
      return BrokenLayout("truncated in its storages");
    storage.numel = *numel;
    const auto bytes = reader.Take(static_cast<uint64_t>(*numel * storage.element));
    if (!bytes) return BrokenLayout("truncated in its storages");
    storages_[about[0]->integer] = {storage, *bytes};
    return absl::OkStatus();
  }
  /// (key, key of the whole, offset, number of elements): a part of another storage.
  absl::Status ReadView(const PickleValue& view) {
    const auto& about = view.items;
    const bool numbers =
        about.size() == 4 && std::all_of(about.begin(), about.end(), [](const PickleValue* item) {
          return item->kind == Kind::kInt && item->integer >= 0;
        });
    const auto whole = numbers ? storages_.find(about[1]->integer) : storages_.end();
    if (whole == storages_.end()) return BrokenLayout("a part of a storage in an unknown form");
    PlacedStorage part = whole->second;
    const int64_t offset = about[2]->integer, numel = about[3]->integer;
    if (offset > part.what.numel || numel > part.what.numel - offset)
      return BrokenLayout("a part exceeds its storage");
    part.what.numel = numel;
    part.bytes = part.bytes.substr(static_cast<size_t>(offset * part.what.element),
                                   static_cast<size_t>(numel * part.what.element));
    storages_[about[0]->integer] = part;
    return absl::OkStatus();
  }
  /// (key, key of the storage, type), dimensions, sizes, strides, offset.
  absl::Status ReadOneTensor(Reader& reader) {
    MT_ASSIGN_OR_RETURN(const Pickle pickle, reader.Next());
    const auto& about = pickle.root->items;
    if (about.size() != 3 || about[0]->kind != Kind::kInt || about[1]->kind != Kind::kInt)
      return BrokenLayout("a tensor in an unknown form");
    const std::optional<int64_t> dimensions = reader.Number();
    // The upper half is not written in all versions.
    const auto count = static_cast<uint32_t>(dimensions.value_or(0));
    auto sizes = reader.Numbers(count), strides = sizes ? reader.Numbers(count) : std::nullopt;
    const std::optional<int64_t> offset = reader.Number();
    if (!dimensions || !sizes || !strides || !offset) return BrokenLayout("truncated in its tensors");
    const auto storage = storages_.find(about[1]->integer);
    if (storage == storages_.end()) return BrokenLayout("a tensor without storage");
    const Storage& what = storage->second.what;
    tensors_.insert_or_assign(about[0]->integer,
                              what.type ? PlaceTensor({*std::move(sizes), *std::move(strides), *offset},
                                                      *what.type, what.numel, storage->second.bytes)
                                        : absl::InvalidArgumentError("a tensor of an unknown type"));
    return absl::OkStatus();
  }

  std::map<int64_t, PlacedStorage> storages_;
  std::map<int64_t, absl::StatusOr<StoredTensor>> tensors_;
};

}  // namespace

bool LooksLikeTar(absl::string_view file) {
  return file.size() >= kBlock && file.substr(kMagicAt, 5) == "ustar";
}

absl::StatusOr<std::vector<StoredTensor>> ParseTarLayout(absl::string_view file) {
  std::map<std::string, absl::string_view> files = FilesOf(file);
  for (const char* name : {"storages", "tensors", "pickle"}) {
    if (files.count(name) == 0)
      return absl::InvalidArgumentError(
          absl::StrCat("a tar archive that torch.save did not write (it contains no entry ", name, ")"));
  }
  TarContents contents;
  MT_RETURN_IF_ERROR(contents.ReadStorages(files["storages"]));
  MT_RETURN_IF_ERROR(contents.ReadTensors(files["tensors"]));
  MT_ASSIGN_OR_RETURN(const Pickle pickle, ParsePickle(files["pickle"]));
  return ReadStateDict(*pickle.root, contents, file.size());
}

}  // namespace mtrun::trainers
