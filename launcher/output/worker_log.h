// One log file of a worker, or none. A full disk may have room again later, and somebody may remove the file
// meanwhile: each write is a new try.
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
  /// None: what is written to it is gone.
  WorkerLog() = default;
  /// Appends to `path`. With a bound it keeps the newest bytes: full to half of them it is put aside as
  /// "<name>.1.log", in the place of what was there. An error names the file.
  static absl::StatusOr<WorkerLog> Open(const std::string& path, size_t most_bytes = 0);

  const std::string& path() const { return path_; }
  /// An error where some of it is not in the file.
  absl::Status Write(std::string_view bytes);
  /// Not valid for none.
  UniqueFd Release() { return std::move(fd_); }

 private:
  absl::Status MakeRoom();

  std::string path_;
  UniqueFd fd_;
  size_t most_bytes_ = 0;  // 0: no bound
  size_t bytes_ = 0;       // where there is one: in the file
};

}  // namespace mtrun::launcher
