// One event file in a folder that TensorBoard watches. Buffers events in memory until Flush. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/posix.h"
#include "tensorboard/event.h"

namespace mtrun::tensorboard {

/// Returns the name of a file started at `seconds` since 1970 beside the files `existing` in its folder. It
/// sorts after all of them, even if their writers' clocks were ahead: TensorBoard reads files in the order of
/// their names, and a later file overrides earlier ones.
std::string NextFileName(int64_t seconds, std::string_view host, int64_t pid,
                         const std::vector<std::string>& existing);

class EventFile {
 public:
  /// Creates a file in `folder` (made if missing) that continues from `step`: events of earlier files from
  /// that step on are discarded. kResourceExhausted if the disk is full.
  static absl::StatusOr<EventFile> Create(const std::string& folder, int64_t step);
  EventFile(EventFile&&) = default;
  /// Flushes; errors are ignored.
  ~EventFile();

  /// Adds an event; `wall_time` is in seconds since 1970.
  void Add(double wall_time, int64_t step, const Content& content);
  /// Writes buffered events. kResourceExhausted if the disk is full; the next Flush writes the rest.
  absl::Status Flush();
  /// Discards events that have not been written.
  void Drop() { pending_.clear(); }
  const std::string& path() const { return path_; }

 private:
  EventFile(std::string path, UniqueFd file) : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  UniqueFd file_;
  std::string pending_;
};

}  // namespace mtrun::tensorboard
