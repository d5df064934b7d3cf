// A disk that a test can fill: a small file system in memory that this process and its children alone see.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace mtrun::support {

class SmallDisk {
 public:
  /// At the folder `path`, which is made. Needs root; an error says what is not allowed here. Other threads
  /// of this process must not have been started.
  static absl::StatusOr<std::unique_ptr<SmallDisk>> Make(const std::string& path, int64_t bytes);
  ~SmallDisk();

  /// Not a byte of it is left.
  void Fill() const;
  /// So many bytes of it are left.
  void Leave(int64_t bytes) const;
  /// Takes away what Fill or Leave put there.
  void Free() const;

 private:
  explicit SmallDisk(std::string path) : path_(std::move(path)) {}

  const std::string path_;
};

}  // namespace mtrun::support
