// What a person hears of a wait for data from a server: a trouble at once, the rest when it takes its time,
// and neither again within a minute, for each of many files may have a trouble of its own. Not thread-safe.
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

  /// A SetClient::Watch that never ends the wait.
  absl::Status operator()(const datasets::SetClient::Wait& wait);
  /// The wait is over; the next one is another.
  void Over(Duration waited);

  /// The line that is to be said of `wait` at `now`, and counts as said; empty: none.
  std::string Line(const datasets::SetClient::Wait& wait, TimePoint now);

 private:
  bool IsNew(const std::string& trouble, TimePoint now);

  const std::string url_;
  std::map<std::string, TimePoint> troubles_;  // the last minute's, by kind: when one of it was said
  bool told_ = false;                          // of this wait
  Duration said_{};
};

}  // namespace mtrun::trainers
