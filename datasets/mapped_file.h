// A whole file mapped read-only into memory. Movable; the bytes stay valid as long as the object lives;
// reading is thread-safe. A file that another process cuts shorter while it is mapped ends this process with
// SIGBUS, as with every mapping.
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
  /// Errors name the path. An empty file maps to no bytes.
  static absl::StatusOr<MappedFile> Open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MappedFile();

  absl::Span<const uint8_t> bytes() const { return bytes_; }
  /// Maps the file at `path`, which holds the same bytes, to where this one is: whoever reads on any thread
  /// reads that one from now on. kDataLoss: it has another size.
  absl::Status Replace(const std::string& path) const;
  /// Asks the kernel to read a part of some mapping and does not wait for it; that it may not is no error.
  static void WillNeed(absl::Span<const uint8_t> part);

 private:
  explicit MappedFile(absl::Span<const uint8_t> bytes) : bytes_(bytes) {}
  absl::Span<const uint8_t> bytes_;
};

}  // namespace mtrun::datasets
