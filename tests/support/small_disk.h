// A disk that a test can fill: a small file system in memory, visible only to this process and its children.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace mtrun::support {

class SmallDisk {
 public:
  /// Mounts it at the folder `path`, which is created. Needs root; the error tells what is not allowed here.
  /// This process must not have started other threads.
  static absl::StatusOr<std::unique_ptr<SmallDisk>> Make(const std::string& path, int64_t bytes);
  ~SmallDisk();

  /// Leaves no free byte.
  void Fill() const;
  /// Leaves `bytes` free.
  void Leave(int64_t bytes) const;
  /// Removes the files of Fill or Leave.
  void Free() const;

 private:
  explicit SmallDisk(std::string path) : path_(std::move(path)) {}

  const std::string path_;
};

}  // namespace mtrun::support
