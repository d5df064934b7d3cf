#include "datasets/files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "base/status_macros.h"

namespace mtrun::datasets {

namespace {

struct RegularFile {
  UniqueFd fd;
  size_t size = 0;
};

absl::StatusOr<RegularFile> OpenRegular(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "open " + path);
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "stat " + path);
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  return RegularFile{std::move(fd), static_cast<size_t>(info.st_size)};
}

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  MT_ASSIGN_OR_RETURN(const RegularFile file, OpenRegular(path));
  if (file.size == 0) return MappedFile(absl::Span<const uint8_t>());
  void* address = mmap(nullptr, file.size, PROT_READ, MAP_SHARED, file.fd.get(), 0);
  if (address == MAP_FAILED) return ErrnoStatus(errno, "map " + path);
  return MappedFile(absl::Span<const uint8_t>(static_cast<const uint8_t*>(address), file.size));
}

absl::Status MappedFile::Replace(const std::string& path) const {
  MT_ASSIGN_OR_RETURN(const RegularFile file, OpenRegular(path));
  if (file.size != bytes_.size()) {
    return absl::DataLossError(
        absl::StrCat(path, " has ", file.size, " bytes, but the file that it replaced had ", bytes_.size()));
  }
  if (bytes_.empty()) return absl::OkStatus();
  // The kernel replaces the mapping atomically: no other mapping can take the addresses in between.
  void* const place = const_cast<uint8_t*>(bytes_.data());
  if (mmap(place, file.size, PROT_READ, MAP_SHARED | MAP_FIXED, file.fd.get(), 0) == MAP_FAILED)
    return ErrnoStatus(errno, "map " + path);
  return absl::OkStatus();
}

void MappedFile::WillNeed(absl::Span<const uint8_t> part) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t inside = reinterpret_cast<uintptr_t>(part.data()) % page;
  madvise(const_cast<uint8_t*>(part.data()) - inside, inside + part.size(), MADV_WILLNEED);
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
}

}  // namespace mtrun::datasets
