#include "datasets/files/archive_reader.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "datasets/files/tree_listing.h"

namespace mtrun::datasets {
namespace {

// Small, because little more than the headers is read if an archive's contents are skipped.
constexpr size_t kBlock = 1 << 14;
constexpr size_t kZeros = 1 << 16;

std::string WithoutDot(absl::string_view path) {
  while (absl::ConsumePrefix(&path, "./")) continue;
  return {path.data(), path.size()};
}

/// Gives the thread a UTF-8 locale while it exists. libarchive converts names that are declared as UTF-8
/// (zip, pax) to the thread's locale, or fails to; a program starts in the "C" locale, which has only ASCII.
class Utf8Locale {
 public:
  Utf8Locale() : before_(Made() == locale_t() ? locale_t() : uselocale(Made())) {}
  ~Utf8Locale() {
    if (before_ != locale_t()) uselocale(before_);
  }
  Utf8Locale(const Utf8Locale&) = delete;

 private:
  /// The environment's locale if the system has no C.UTF-8; none if that is missing too.
  static locale_t Made() {
    static const locale_t made = [] {
      const locale_t always = newlocale(LC_CTYPE_MASK, "C.UTF-8", locale_t());
      return always != locale_t() ? always : newlocale(LC_CTYPE_MASK, "", locale_t());
    }();
    return made;
  }
  const locale_t before_;
};

}  // namespace

/// The input of libarchive: any part of a file.
struct ArchiveReader::Input {
  UniqueFd owned;
  ByteRange range;
  int64_t at = 0;  // from the range's begin
  std::vector<char> block = std::vector<char>(kBlock);

  static la_ssize_t Read(archive* handle, void* self, const void** out) {
    auto& input = *static_cast<Input*>(self);
    *out = input.block.data();
    const int64_t want = std::min(static_cast<int64_t>(input.block.size()), input.range.size - input.at);
    for (;;) {
      const ssize_t n =
          pread(input.range.fd, input.block.data(), static_cast<size_t>(want), input.range.begin + input.at);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) archive_set_error(handle, errno, "cannot be read");
      input.at += std::max<ssize_t>(0, n);
      return n;
    }
  }

  static la_int64_t Skip(archive*, void* self, la_int64_t bytes) {
    auto& input = *static_cast<Input*>(self);
    const int64_t skipped = std::clamp<int64_t>(bytes, 0, input.range.size - input.at);
    input.at += skipped;
    return skipped;
  }
};

bool HasPlainTarName(absl::string_view path) { return absl::EndsWithIgnoreCase(path, ".tar"); }

bool HasArchiveName(absl::string_view path) {
  for (const char* end :
       {".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst", ".zip"}) {
    if (absl::EndsWithIgnoreCase(path, end)) return true;
  }
  return false;
}

ArchiveReader::ArchiveReader(std::string noun, std::unique_ptr<Input> input)
    : noun_(std::move(noun)), input_(std::move(input)), archive_(archive_read_new(), archive_read_free) {}
ArchiveReader::ArchiveReader(ArchiveReader&&) noexcept = default;
ArchiveReader& ArchiveReader::operator=(ArchiveReader&&) noexcept = default;
ArchiveReader::~ArchiveReader() = default;

absl::StatusOr<ArchiveReader> ArchiveReader::Open(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));  // a FIFO would block until a writer
  if (!fd.valid()) return ErrnoStatus(errno, "open " + path);
  struct stat about = {};
  if (fstat(fd.get(), &about) != 0) return ErrnoStatus(errno, "stat " + path);
  if (!S_ISREG(about.st_mode)) return absl::InvalidArgumentError(path + " is not an ordinary file");
  const ByteRange range{.fd = fd.get(), .begin = 0, .size = about.st_size};
  MT_ASSIGN_OR_RETURN(ArchiveReader reader, OpenRange(range, path));
  reader.input_->owned = std::move(fd);
  return reader;
}

absl::StatusOr<ArchiveReader> ArchiveReader::OpenRange(const ByteRange& range, const std::string& noun) {
  ArchiveReader reader(noun, std::make_unique<Input>());
  reader.input_->range = range;
  archive* handle = reader.archive_.get();
  archive_read_support_format_tar(handle);
  archive_read_support_format_zip_streamable(handle);
  archive_read_support_filter_gzip(handle);
  archive_read_support_filter_bzip2(handle);
  archive_read_support_filter_xz(handle);
  archive_read_support_filter_zstd(handle);
  archive_read_set_read_callback(handle, Input::Read);
  archive_read_set_skip_callback(handle, Input::Skip);
  archive_read_set_callback_data(handle, reader.input_.get());
  if (archive_read_open1(handle) != ARCHIVE_OK)
    return absl::InvalidArgumentError(
        absl::StrCat(noun, " is neither a tar nor a zip archive: ", archive_error_string(handle)));
  return reader;
}

absl::Status ArchiveReader::Failure() const {
  const char* why = archive_error_string(archive_.get());
  return absl::DataLossError(absl::StrCat(noun_, " is truncated or damaged",
                                          name_.empty() ? "" : " at or after " + AsPlainText(name_), ": ",
                                          why == nullptr ? "unknown error" : why));
}

absl::Status ArchiveReader::UnreadableName() const {
  const char* why = archive_error_string(archive_.get());
  return absl::DataLossError(absl::StrCat(noun_, " has an entry whose name cannot be read",
                                          name_.empty() ? "" : ", after " + AsPlainText(name_),
                                          why == nullptr ? "" : absl::StrCat(": ", why)));
}

absl::Status ArchiveReader::TooLarge(int64_t limit) const {
  return absl::InvalidArgumentError(
      absl::StrCat(noun_, ": ", AsPlainText(name_), " is larger than ", limit, " bytes"));
}

bool ArchiveReader::is_zip() const {
  return (archive_format(archive_.get()) & ARCHIVE_FORMAT_BASE_MASK) == ARCHIVE_FORMAT_ZIP;
}

ByteRange ArchiveReader::contents() const {
  return {.fd = input_->range.fd, .begin = contents_at_, .size = bytes_};
}

absl::Status ArchiveReader::FindContents(bool sparse) {
  const bool plain = !is_zip() && !sparse && archive_filter_count(archive_.get()) == 1;
  contents_at_ = plain ? input_->range.begin + archive_filter_bytes(archive_.get(), 0) : -1;
  const int64_t end = input_->range.begin + input_->range.size;
  if (!plain || !is_file_ || bytes_ <= end - contents_at_) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(noun_, " is truncated in ", AsPlainText(name_)));
}

absl::StatusOr<bool> ArchiveReader::Next() {
  for (;;) {
    MT_ASSIGN_OR_RETURN(const bool more, NextEntry());
    if (!more) return false;
    const std::vector<absl::string_view> names = absl::StrSplit(name_, '/');
    if (IsInHiddenFolder(names)) continue;
    if (!IsHiddenName(names.back())) return true;
    ++hidden_files_;
  }
}

absl::StatusOr<bool> ArchiveReader::NextEntry() {
  const Utf8Locale names;
  archive_entry* entry = nullptr;
  do {
    const int result = archive_read_next_header(archive_.get(), &entry);
    if (result == ARCHIVE_EOF) return false;
    if (result != ARCHIVE_OK && result != ARCHIVE_WARN) return Failure();
  } while (archive_entry_filetype(entry) == AE_IFDIR);
  const char* name = archive_entry_pathname(entry);
  if (name == nullptr) return UnreadableName();
  name_ = WithoutDot(name);
  bytes_ = archive_entry_size_is_set(entry) != 0 ? archive_entry_size(entry) : -1;
  const char* target = archive_entry_hardlink(entry);
  hard_link_ = target == nullptr || bytes_ > 0 ? "" : WithoutDot(target);  // pax: a link can have contents
  is_file_ = archive_entry_filetype(entry) == AE_IFREG && (target == nullptr || bytes_ > 0);
  is_encrypted_ = archive_entry_is_encrypted(entry) != 0;
  header_at_ = input_->range.begin + archive_read_header_position(archive_.get());
  MT_RETURN_IF_ERROR(FindContents(archive_entry_sparse_count(entry) > 0));
  return true;
}

/// Returns an error for contents that do not match their checksum, if `checked`.
absl::StatusOr<int64_t> ArchiveReader::Walk(int64_t limit, bool checked,
                                            const std::function<absl::Status(std::string_view)>& take) {
  static const std::string& zeros = *new std::string(kZeros, '\0');
  if (bytes_ > limit) return TooLarge(limit);
  int64_t sum = 0;
  const void* block = nullptr;
  size_t size = 0;
  la_int64_t offset = 0;
  for (;;) {
    const int result = archive_read_data_block(archive_.get(), &block, &size, &offset);
    if (result == ARCHIVE_EOF) return sum;
    // libarchive only warns about a wrong checksum of a zip entry, with the last block.
    if (result != ARCHIVE_OK && (checked || result != ARCHIVE_WARN)) return Failure();
    if (offset < sum || offset > limit || static_cast<int64_t>(size) > limit - offset) return TooLarge(limit);
    while (sum < offset) {
      const int64_t gap = std::min(offset - sum, static_cast<la_int64_t>(kZeros));
      MT_RETURN_IF_ERROR(take(std::string_view(zeros).substr(0, static_cast<size_t>(gap))));
      sum += gap;
    }
    MT_RETURN_IF_ERROR(take({static_cast<const char*>(block), size}));
    sum += static_cast<int64_t>(size);
  }
}

absl::StatusOr<int64_t> ArchiveReader::ReadPieces(int64_t limit,
                                                  const std::function<absl::Status(std::string_view)>& take) {
  return Walk(limit, /*checked=*/true, take);
}

absl::StatusOr<int64_t> ArchiveReader::Measure(int64_t limit) {
  return Walk(limit, /*checked=*/false, [](std::string_view) { return absl::OkStatus(); });
}

absl::StatusOr<std::string> ArchiveReader::Read(int64_t limit) {
  std::string bytes;
  const auto take = [&](std::string_view piece) {
    bytes.append(piece);
    return absl::OkStatus();
  };
  MT_RETURN_IF_ERROR(ReadPieces(limit, take).status());
  return bytes;
}

}  // namespace mtrun::datasets
