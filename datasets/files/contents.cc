#include "datasets/files/contents.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace mtrun::datasets {
namespace {

int64_t ModifiedOf(const struct stat& about) {
  return about.st_mtim.tv_sec * 1'000'000'000 + about.st_mtim.tv_nsec;
}

/// Opens a file that has no name.
absl::StatusOr<UniqueFd> NamelessFile(const std::string& folder) {
  MT_RETURN_IF_ERROR(MakeFolders(folder));
  std::string path = absl::StrCat(folder, "/.mtdata-spool-XXXXXX");
  UniqueFd fd(mkostemp(path.data(), O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("create a file in ", folder));
  unlink(path.c_str());
  return fd;
}

absl::StatusOr<std::string> ReadRange(const ByteRange& range) {
  std::string bytes(static_cast<size_t>(range.size), '\0');
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n =
        pread(range.fd, bytes.data() + done, bytes.size() - done, range.begin + static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, "read");
    if (n == 0) return absl::DataLossError("it became shorter during the import");
    done += static_cast<size_t>(n);
  }
  return bytes;
}

absl::StatusOr<std::string> ReadZipEntry(const ByteRange& range, const std::string& noun, int64_t bytes) {
  MT_ASSIGN_OR_RETURN(ArchiveReader reader, ArchiveReader::OpenRange(range, noun));
  MT_ASSIGN_OR_RETURN(const bool there, reader.Next());
  if (!there) return absl::DataLossError(absl::StrCat(noun, " no longer has an entry that was listed"));
  return reader.Read(bytes);
}

}  // namespace

absl::Status TooLargeFile() { return absl::InvalidArgumentError("larger than 256 MiB"); }

absl::StatusOr<uint32_t> Contents::AddHolder(const std::string& path) {
  struct stat about = {};
  if (stat(path.c_str(), &about) != 0) return ErrnoStatus(errno, "open " + path);
  holders_.push_back({.path = path, .bytes = about.st_size, .modified = ModifiedOf(about)});
  return static_cast<uint32_t>(holders_.size() - 1);
}

absl::StatusOr<ByteRange> Contents::Spool(ArchiveReader& reader, int64_t limit) {
  if (!spool_.valid()) {
    MT_ASSIGN_OR_RETURN(spool_, NamelessFile(spool_folder_));
  }
  ByteRange range{.fd = spool_.get(), .begin = spooled_, .size = 0};
  const auto take = [&](std::string_view piece) { return WriteAll(spool_.get(), piece); };
  auto bytes = reader.ReadPieces(limit, take);
  if (absl::IsResourceExhausted(bytes.status()))
    return Annotate(bytes.status(),
                    absl::StrCat("unpack ", AsPlainText(reader.name()), " to ", spool_folder_,
                                 " (free some space on that disk, or give an uncompressed archive)"));
  // The next entry overwrites the remains of a failed one.
  if (!bytes.ok()) {
    if (lseek(spool_.get(), spooled_, SEEK_SET) < 0) return ErrnoStatus(errno, "seek in the unpacked data");
    return bytes.status();
  }
  range.size = *bytes;
  spooled_ += *bytes;
  return range;
}

absl::StatusOr<UniqueFd> Contents::OpenUnchanged(const Holder& holder) const {
  UniqueFd fd(open(holder.path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat about = {};
  const bool there = fd.valid() && fstat(fd.get(), &about) == 0;
  if (there && about.st_size == holder.bytes && ModifiedOf(about) == holder.modified) return fd;
  return absl::AbortedError(absl::StrCat(holder.path, there ? " was changed" : " was removed",
                                         " during the import; start again when it is complete"));
}

absl::StatusOr<std::string> Contents::ReadWhole(const std::string& path, int64_t bytes, int64_t modified) {
  struct stat about = {};
  const bool there = stat(path.c_str(), &about) == 0;
  if (there && (S_ISCHR(about.st_mode) || S_ISBLK(about.st_mode)))
    return absl::InvalidArgumentError("a device, not a file");
  const bool ordinary = there && S_ISREG(about.st_mode);  // a pipe has no size
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "open " + path);
  auto read = ReadUpTo(fd.get(), path, static_cast<size_t>(kMaxFileBytes) + 1);
  if (read.ok() && static_cast<int64_t>(read->size()) > kMaxFileBytes) return TooLargeFile();
  if (read.ok() && ordinary && (static_cast<int64_t>(read->size()) != bytes || ModifiedOf(about) != modified))
    return absl::DataLossError("changed during the import");
  return read;
}

absl::StatusOr<std::string> Contents::Read(const Place& place, int64_t bytes) const {
  switch (place.kind) {
    case Place::Kind::kLink:
      return absl::InvalidArgumentError(
          "a link whose target is not in the archive, or a symbolic link; unpack it and import the folder");
    case Place::Kind::kEncrypted:
      return absl::InvalidArgumentError("encrypted; unpack it with its password and import the folder");
    case Place::Kind::kSpooled:
      return ReadRange({.fd = spool_.get(), .begin = place.offset, .size = bytes});
    default:
      break;
  }
  const Holder& holder = holders_[place.holder];
  MT_ASSIGN_OR_RETURN(const UniqueFd fd, OpenUnchanged(holder));
  if (place.kind == Place::Kind::kPart)
    return ReadRange({.fd = fd.get(), .begin = place.offset, .size = bytes});
  return ReadZipEntry({.fd = fd.get(), .begin = place.offset, .size = holder.bytes - place.offset},
                      holder.path, bytes);
}

}  // namespace mtrun::datasets
