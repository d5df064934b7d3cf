#include "datasets/tar_reader.h"

#include <archive.h>
#include <archive_entry.h>

#include <cerrno>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/posix.h"

namespace mtrun::datasets {
namespace {

constexpr size_t kBlockBytes = 1 << 18;

}  // namespace

bool HasTarName(const std::string& path) {
  for (const char* end : {".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst"}) {
    if (absl::EndsWithIgnoreCase(path, end)) return true;
  }
  return false;
}

void TarReader::Closer::operator()(archive* handle) const { archive_read_free(handle); }

absl::StatusOr<TarReader> TarReader::Open(const std::string& path) {
  TarReader reader(path, archive_read_new());
  archive* handle = reader.archive_.get();
  archive_read_support_format_tar(handle);
  archive_read_support_filter_gzip(handle);
  archive_read_support_filter_bzip2(handle);
  archive_read_support_filter_xz(handle);
  archive_read_support_filter_zstd(handle);
  if (archive_read_open_filename(handle, path.c_str(), kBlockBytes) == ARCHIVE_OK) return reader;
  if (archive_errno(handle) == ENOENT || archive_errno(handle) == EACCES) {
    return ErrnoStatus(archive_errno(handle), "open " + path);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, " is not a tar archive: ", archive_error_string(handle)));
}

absl::Status TarReader::Failure() const {
  const char* why = archive_error_string(archive_.get());
  return absl::DataLossError(absl::StrCat(path_, " is truncated or damaged",
                                          name_.empty() ? "" : " at or after " + name_, ": ",
                                          why == nullptr ? "unknown error" : why));
}

absl::StatusOr<bool> TarReader::Next() {
  archive_entry* entry = nullptr;
  do {
    const int result = archive_read_next_header(archive_.get(), &entry);
    if (result == ARCHIVE_EOF) return false;
    if (result != ARCHIVE_OK && result != ARCHIVE_WARN) return Failure();
  } while (archive_entry_filetype(entry) == AE_IFDIR);
  const char* name = archive_entry_pathname(entry);
  if (name == nullptr)
    return absl::DataLossError(absl::StrCat(path_, " has an entry whose name cannot be read, after ", name_));
  name_ = name;
  while (absl::StartsWith(name_, "./")) name_.erase(0, 2);
  is_file_ = archive_entry_filetype(entry) == AE_IFREG && archive_entry_hardlink(entry) == nullptr;
  return true;
}

absl::StatusOr<std::string> TarReader::Read(int64_t limit) {
  std::string bytes;
  const void* block = nullptr;
  size_t size = 0;
  la_int64_t offset = 0;
  for (;;) {
    const int result = archive_read_data_block(archive_.get(), &block, &size, &offset);
    if (result == ARCHIVE_EOF) return bytes;
    if (result != ARCHIVE_OK && result != ARCHIVE_WARN) return Failure();
    // A sparse entry leaves gaps, which read as zeros.
    if (offset < static_cast<la_int64_t>(bytes.size()) || offset + static_cast<int64_t>(size) > limit) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ": ", name_, " is larger than ", limit, " bytes"));
    }
    bytes.resize(static_cast<size_t>(offset));
    bytes.append(static_cast<const char*>(block), size);
  }
}

}  // namespace mtrun::datasets
