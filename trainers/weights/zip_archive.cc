#include "trainers/weights/zip_archive.h"

#include <cstring>
#include <optional>

#include <zlib.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mtrun::trainers {
namespace {

// APPNOTE.TXT 6.3: signatures, sizes of the fixed parts, and values that mean "see the zip64 field".
constexpr uint32_t kEndSignature = 0x06054b50, kEnd64Signature = 0x06064b50, kLocator64Signature = 0x07064b50;
constexpr uint32_t kEntrySignature = 0x02014b50, kLocalSignature = 0x04034b50;
constexpr uint64_t kEndSize = 22, kEnd64Size = 56, kLocator64Size = 20, kEntrySize = 46, kLocalSize = 30;
constexpr uint64_t kMaxComment = 0xFFFF;
constexpr uint32_t kIn64 = 0xFFFFFFFF;
constexpr uint16_t kZip64Field = 1, kEncrypted = 1, kStored = 0;

/// Returns the little-endian number at `offset`, or nullopt if it is outside `bytes`.
template <typename T>
std::optional<T> Load(absl::string_view bytes, uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::optional<absl::string_view> Slice(absl::string_view bytes, uint64_t offset, uint64_t size) {
  if (offset > bytes.size() || bytes.size() - offset < size) return std::nullopt;
  return bytes.substr(offset, size);
}

absl::Status BrokenZip(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("not an intact zip file: ", what));
}

struct Directory {
  uint64_t offset = 0, entries = 0;
};

absl::StatusOr<Directory> FindDirectory(absl::string_view file) {
  if (file.size() < kEndSize) return BrokenZip("too short");
  const uint64_t last = file.size() - kEndSize;
  uint64_t end = last + 1;
  while (end > 0 && last - (end - 1) <= kMaxComment && Load<uint32_t>(file, end - 1) != kEndSignature) --end;
  if (end == 0 || Load<uint32_t>(file, end - 1) != kEndSignature)
    return BrokenZip("it has no end record (truncated?)");
  --end;
  Directory directory{*Load<uint32_t>(file, end + 16), *Load<uint16_t>(file, end + 10)};
  const uint64_t locator = end - std::min(end, kLocator64Size);
  if (Load<uint32_t>(file, locator) != kLocator64Signature) return directory;
  const uint64_t end64 = *Load<uint64_t>(file, locator + 8);
  const auto record = Slice(file, end64, kEnd64Size);
  if (!record || Load<uint32_t>(*record, 0) != kEnd64Signature)
    return BrokenZip("its zip64 end record is not at the stated offset");
  return Directory{*Load<uint64_t>(*record, 48), *Load<uint64_t>(*record, 32)};
}

/// Takes from the zip64 field the values that did not fit into the fixed part: sizes, then the offset.
bool ReadZip64(absl::string_view extra, uint64_t& size, uint64_t& stored_size, uint64_t& header) {
  for (uint64_t at = 0; at + 4 <= extra.size();) {
    const uint16_t id = *Load<uint16_t>(extra, at), length = *Load<uint16_t>(extra, at + 2);
    const auto field = Slice(extra, at + 4, length);
    if (!field) return false;
    at += 4 + length;
    if (id != kZip64Field) continue;
    uint64_t next = 0;
    for (uint64_t* value : {&size, &stored_size, &header}) {
      if (*value != kIn64) continue;
      const auto wide = Load<uint64_t>(*field, next);
      if (!wide) return false;
      *value = *wide;
      next += 8;
    }
    return true;
  }
  return true;
}

}  // namespace

bool ZipArchive::LooksLikeZip(absl::string_view file) { return Load<uint32_t>(file, 0) == kLocalSignature; }

absl::StatusOr<ZipArchive> ZipArchive::Open(absl::string_view file) {
  MT_ASSIGN_OR_RETURN(const Directory directory, FindDirectory(file));
  ZipArchive archive;
  archive.file_ = file;
  uint64_t at = directory.offset, total = 0;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    const auto fixed = Slice(file, at, kEntrySize);
    if (!fixed || Load<uint32_t>(*fixed, 0) != kEntrySignature)
      return BrokenZip(absl::StrCat("its directory is truncated at entry ", i));
    const uint64_t name_size = *Load<uint16_t>(*fixed, 28), extra_size = *Load<uint16_t>(*fixed, 30);
    const auto name = Slice(file, at + kEntrySize, name_size);
    const auto extra = Slice(file, at + kEntrySize + name_size, extra_size);
    if (!name || !extra) return BrokenZip(absl::StrCat("its directory is truncated at entry ", i));
    uint64_t size = *Load<uint32_t>(*fixed, 24), stored = *Load<uint32_t>(*fixed, 20),
             header = *Load<uint32_t>(*fixed, 42);
    if (!ReadZip64(*extra, size, stored, header))
      return BrokenZip(absl::StrCat("entry ", i, " has a broken zip64 field"));
    Entry entry{.header = header,
                .size = size,
                .crc = *Load<uint32_t>(*fixed, 16),
                .flags = *Load<uint16_t>(*fixed, 8),
                .method = *Load<uint16_t>(*fixed, 10)};
    if (entry.method == kStored && stored != size)
      return BrokenZip(absl::StrCat("entry ", i, " has two different sizes"));
    // Each entry is verified separately: many that claim the same bytes would take hours. Read refuses
    // entries that are larger than the file.
    if (stored <= file.size() && (total += stored) > file.size()) return BrokenZip("its entries overlap");
    archive.has_checksums_ = archive.has_checksums_ || entry.crc != 0;
    if (!archive.entries_.emplace(std::string(*name), entry).second) {
      return BrokenZip(absl::StrCat("it has two entries named ", *name));
    }
    at += kEntrySize + name_size + extra_size + *Load<uint16_t>(*fixed, 32);
  }
  return archive;
}

absl::StatusOr<absl::string_view> ZipArchive::Read(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return absl::NotFoundError(absl::StrCat("no entry ", name));
  const Entry& entry = found->second;
  if (entry.method != kStored || (entry.flags & kEncrypted) != 0) {
    return absl::UnimplementedError(
        absl::StrCat("entry ", name, " is compressed or encrypted; PyTorch stores entries uncompressed"));
  }
  const auto local = Slice(file_, entry.header, kLocalSize);
  if (!local || Load<uint32_t>(*local, 0) != kLocalSignature) {
    return absl::DataLossError(absl::StrCat("entry ", name, " is not where the directory says"));
  }
  const uint64_t skip = kLocalSize + *Load<uint16_t>(*local, 26) + *Load<uint16_t>(*local, 28);
  const auto data = Slice(file_, entry.header + skip, entry.size);
  if (!data) return absl::DataLossError(absl::StrCat("entry ", name, " extends beyond the end of the file"));
  if (entry.verified || !has_checksums_) return *data;
  ++verifications_;
  if (crc32_z(0, reinterpret_cast<const Bytef*>(data->data()), data->size()) != entry.crc) {
    return absl::DataLossError(absl::StrCat("entry ", name, " does not match its checksum"));
  }
  entry.verified = true;
  return *data;
}

}  // namespace mtrun::trainers
