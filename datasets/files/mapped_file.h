// A whole file mapped read-only into memory. Movable; the bytes stay valid while the object exists; reading
// is thread-safe. As with every mapping, this process dies of SIGBUS if another process truncates the file.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace mtrun::datasets {

class MappedFile {
 public:
  /// Maps a file. Errors name the path. An empty file maps to no bytes.
  static absl::StatusOr<MappedFile> Open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MappedFile();

  absl::Span<const uint8_t> bytes() const { return bytes_; }
  /// Maps the file at `path`, which has the same bytes, over this mapping: all threads read the new file from
  /// now on. kDataLoss: it has another size.
  absl::Status Replace(const std::string& path) const;
  /// Asks the kernel to read a part of a mapping, without waiting. A refusal is ignored.
  static void WillNeed(absl::Span<const uint8_t> part);

 private:
  explicit MappedFile(absl::Span<const uint8_t> bytes) : bytes_(bytes) {}
  absl::Span<const uint8_t> bytes_;
};

}  // namespace mtrun::datasets
