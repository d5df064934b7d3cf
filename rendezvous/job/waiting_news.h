// Decides when to tell waiting nodes their reason to wait: every change, but among very many nodes only after
// pauses. Otherwise each node that comes would be announced to all others. A value; not thread-safe.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/clock.h"

namespace mtrun::rendezvous {

class WaitingNews {
 public:
  static constexpr size_t kFewNodes = 32;  // with more nodes, news is sent once in a pause
  static constexpr Duration kPause = std::chrono::seconds(1);
  /// Grows with the number of nodes, so that telling all takes the same share of the time.
  static Duration PauseAmong(size_t nodes) {
    return std::max(kPause, Duration(std::chrono::milliseconds(nodes)));
  }

  /// `told`: the waiting nodes by the last text sent to them, "" for nothing yet. `nodes`: the size of the
  /// job. Returns the nodes to be told `text` now; the others wait for due().
  std::set<std::string> Choose(const std::map<std::string, std::set<std::string>>& told,
                               const std::string& text, size_t nodes, TimePoint now);
  /// When to choose again from the nodes that were not told.
  std::optional<TimePoint> due() const { return waits_ ? std::optional(next_) : std::nullopt; }

  std::string Describe(TimePoint now) const;
  bool operator==(const WaitingNews&) const = default;

 private:
  TimePoint next_;
  bool waits_ = false;
};

}  // namespace mtrun::rendezvous
