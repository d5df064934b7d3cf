// When waiting nodes hear what they wait for. Each hears every change, but among very many nodes only once in
// a while: otherwise each node that comes would be announced to all the others. A value; not thread-safe.
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
  static constexpr size_t kFewNodes = 32;  // beyond it news comes once in a pause
  static constexpr Duration kPause = std::chrono::seconds(1);
  /// So that telling all takes the same part of the time however many they are.
  static Duration PauseAmong(size_t nodes) {
    return std::max(kPause, Duration(std::chrono::milliseconds(nodes)));
  }

  /// `told`: the waiting nodes by what they were told last, "" for nothing yet. `nodes`: of the job in all.
  /// Returns which of them are to be told `text` now; those that are not wait for due().
  std::set<std::string> Choose(const std::map<std::string, std::set<std::string>>& told,
                               const std::string& text, size_t nodes, TimePoint now);
  /// When those that were not told are to be chosen from again.
  std::optional<TimePoint> due() const { return waits_ ? std::optional(next_) : std::nullopt; }

  std::string Describe(TimePoint now) const;
  bool operator==(const WaitingNews&) const = default;

 private:
  TimePoint next_;
  bool waits_ = false;
};

}  // namespace mtrun::rendezvous
