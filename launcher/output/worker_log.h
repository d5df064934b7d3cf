// One log file of a worker, or none. Each write is a new attempt: a full disk may have free space again
// later, and the file may be removed while it is in use.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/posix.h"

namespace mtrun::launcher {

class WorkerLog {
 public:
  /// Makes no log: writes are discarded.
  WorkerLog() = default;
  /// Appends to `path`. If `most_bytes` is nonzero it keeps the newest bytes: at half of the limit the file
  /// is renamed to "<name>.1.log", replacing an older one. An error names the file.
  static absl::StatusOr<WorkerLog> Open(const std::string& path, size_t most_bytes = 0);

  const std::string& path() const { return path_; }
  /// Returns an error if some bytes were not written to the file.
  absl::Status Write(std::string_view bytes);
  /// Invalid for a default-constructed log.
  UniqueFd Release() { return std::move(fd_); }

 private:
  absl::Status MakeRoom();

  std::string path_;
  UniqueFd fd_;
  size_t most_bytes_ = 0;  // 0: no limit
  size_t bytes_ = 0;       // size of the file, if there is a limit
};

}  // namespace mtrun::launcher
