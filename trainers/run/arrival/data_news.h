// Decides what to log about a wait for data: a problem at once, progress if the wait is long. Each is
// repeated at most once a minute, because many files can each have a problem. Not thread-safe.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "base/clock.h"
#include "datasets/cache/set_client.h"

namespace mtrun::trainers {

class DataNews {
 public:
  explicit DataNews(std::string url) : url_(std::move(url)) {}

  /// Logs what is due. It is a SetClient::Watch that never ends the wait.
  absl::Status operator()(const datasets::SetClient::Wait& wait);
  /// Ends this wait; the next call starts another one.
  void Over(Duration waited);

  /// Returns the line to log for `wait` at `now`, and remembers it as logged; empty if none is due.
  std::string Line(const datasets::SetClient::Wait& wait, TimePoint now);

 private:
  bool IsNew(const std::string& trouble, TimePoint now);

  const std::string url_;
  std::map<std::string, TimePoint> troubles_;  // kinds of the last minute, with the time of their log line
  bool told_ = false;                          // this wait has been logged
  Duration said_{};
};

}  // namespace mtrun::trainers
