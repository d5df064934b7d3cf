#include "trainers/features/feature_file.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/fast_digest.h"
#include "base/splitmix.h"

namespace mtrun::trainers {
namespace {

constexpr size_t kChecksumBytes = sizeof(uint64_t);

/// Calls pread or pwrite until all bytes are transferred. Returns 0, or errno; -1 at the end of the file.
template <typename Call, typename Byte>
int TransferAll(Call call, int fd, Byte* bytes, size_t size, off_t at) {
  while (size > 0) {
    const ssize_t done = call(fd, bytes, size, at);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return errno;
    if (done == 0) return -1;
    bytes += done;
    at += done;
    size -= static_cast<size_t>(done);
  }
  return 0;
}

}  // namespace

absl::StatusOr<FeatureFile> FeatureFile::Open(const std::string& path, uint64_t key, int64_t row_bytes) {
  // O_NONBLOCK: opening a named pipe must not wait for its other end.
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0666));
  if (!fd.valid() && errno == ELOOP)
    return absl::FailedPreconditionError(absl::StrCat(path, " is a symbolic link"));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path));
  struct stat status = {};
  if (fstat(fd.get(), &status) != 0) return ErrnoStatus(errno, absl::StrCat("look at ", path));
  if (!S_ISREG(status.st_mode))
    return absl::FailedPreconditionError(absl::StrCat(path, " is no ordinary file"));
  return FeatureFile(std::move(fd), path, key, row_bytes);
}

FeatureFile::FeatureFile(UniqueFd fd, std::string path, uint64_t key, int64_t row_bytes)
    : fd_(std::move(fd)), path_(std::move(path)), key_(key), row_bytes_(row_bytes) {}

uint64_t FeatureFile::ChecksumOf(int64_t row, absl::Span<const char> bytes) const {
  return FastDigest(bytes.data(), bytes.size(), SplitMix64(key_ + SplitMix64(static_cast<uint64_t>(row))));
}

bool FeatureFile::Read(int64_t row, absl::Span<char> bytes) const {
  std::string record(kChecksumBytes + bytes.size(), '\0');
  const auto at = row * static_cast<int64_t>(record.size());
  if (TransferAll(pread, fd_.get(), record.data(), record.size(), at) != 0) return false;
  const absl::Span<const char> values = absl::MakeConstSpan(record).subspan(kChecksumBytes);
  uint64_t checksum = 0;
  std::memcpy(&checksum, record.data(), kChecksumBytes);
  if (checksum != ChecksumOf(row, values)) return false;
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return true;
}

absl::Status FeatureFile::Clear() const {
  if (ftruncate(fd_.get(), 0) != 0) return ErrnoStatus(errno, absl::StrCat("clear ", path_));
  return absl::OkStatus();
}

absl::Status FeatureFile::Write(int64_t row, absl::Span<const char> bytes) const {
  std::string record(kChecksumBytes, '\0');
  const uint64_t checksum = ChecksumOf(row, bytes);
  std::memcpy(record.data(), &checksum, kChecksumBytes);
  record.append(bytes.data(), bytes.size());
  const auto at = row * static_cast<int64_t>(record.size());
  const int error = TransferAll(pwrite, fd_.get(), record.data(), record.size(), at);
  if (error == 0) return absl::OkStatus();
  return ErrnoStatus(error > 0 ? error : EIO, absl::StrCat("write ", path_));
}

}  // namespace mtrun::trainers
