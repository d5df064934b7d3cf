// One event file of a folder that TensorBoard watches. Events gather in memory until Flush. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/posix.h"
#include "tensorboard/event.h"

namespace mtrun::tensorboard {

/// What a file is called that begins at `seconds` since 1970 beside `existing` ones (file names of the
/// folder): its name is behind theirs, whatever their writers' clocks were, for TensorBoard reads files in
/// the order of their names and a later one takes back what an earlier one says.
std::string NextFileName(int64_t seconds, std::string_view host, int64_t pid,
                         const std::vector<std::string>& existing);

class EventFile {
 public:
  /// A new file in `folder`, which is made, that goes on from `step`: where other event files are there, what
  /// they say from that step on is taken back. kResourceExhausted: the disk is full.
  static absl::StatusOr<EventFile> Create(const std::string& folder, int64_t step);
  EventFile(EventFile&&) = default;
  /// Flushes; a failure is nobody's business any more.
  ~EventFile();

  /// `wall_time`: seconds since 1970.
  void Add(double wall_time, int64_t step, const Content& content);
  /// kResourceExhausted: the disk is full, and what it has no room for is written by the next Flush.
  absl::Status Flush();
  /// What has not been written never is.
  void Drop() { pending_.clear(); }
  const std::string& path() const { return path_; }

 private:
  EventFile(std::string path, UniqueFd file) : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  UniqueFd file_;
  std::string pending_;
};

}  // namespace mtrun::tensorboard
