#include "datasets/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/posix.h"

namespace mtrun::datasets {

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "open " + path);
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "stat " + path);
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  if (info.st_size == 0) return MappedFile(absl::Span<const uint8_t>());
  const size_t size = static_cast<size_t>(info.st_size);
  void* address = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (address == MAP_FAILED) return ErrnoStatus(errno, "map " + path);
  return MappedFile(absl::Span<const uint8_t>(static_cast<const uint8_t*>(address), size));
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
