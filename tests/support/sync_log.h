// Records the calls of fsync(2), which a fake disk cannot see: a program that links this file calls its
// fsync, which calls the kernel's.
#pragma once

#include <string>
#include <vector>

namespace mtrun::support {

/// Records while it exists; one at a time. Thread-safe.
class SyncLog {
 public:
  /// Records only this folder, and what is below it.
  explicit SyncLog(const std::string& folder);
  ~SyncLog();
  SyncLog(const SyncLog&) = delete;

  /// Returns the paths that were synced since the last call, in order, as they were named then: relative to
  /// the folder, which is ".".
  std::vector<std::string> Take();
};

}  // namespace mtrun::support
