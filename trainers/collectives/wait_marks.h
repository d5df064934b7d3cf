// Finds out if a device waits for others: marks in the order of its work surround each such wait. The
// training thread sets the marks ahead of the device. The marks that the device has passed show if it has
// work of its own. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

namespace mtrun::collectives {

template <typename Mark>
class WaitMarks {
 public:
  void Begin(Mark mark) { waits_.push_back({++begun_, std::move(mark), std::nullopt}); }
  /// Ends the wait that was begun last.
  void End(Mark mark) { waits_.back().end.emplace(std::move(mark)); }
  /// Returns true if the device has passed all marks.
  bool empty() const { return waits_.empty(); }
  /// Returns the number, from 1, of the wait that the device is in; 0: none. `passed` tells if a mark is
  /// passed.
  template <typename Passed>
  uint64_t Current(const Passed& passed) {
    while (!waits_.empty() && waits_.front().end && passed(*waits_.front().end)) waits_.pop_front();
    return !waits_.empty() && passed(waits_.front().begin) ? waits_.front().number : 0;
  }

 private:
  struct Wait {
    uint64_t number;
    Mark begin;
    std::optional<Mark> end;  // nothing while the training thread is in it
  };
  uint64_t begun_ = 0;
  std::deque<Wait> waits_;  // not passed by the device at the last check
};

}  // namespace mtrun::collectives
