// Where in the order of its work a device waits for others: marks before and after each such place, which it
// passes in their order. The training thread sets them ahead of it; who asks how far it has come learns
// whether it has work of its own to do. Not thread-safe.
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
  /// Of the wait that has begun last.
  void End(Mark mark) { waits_.back().end.emplace(std::move(mark)); }
  /// The device is past all that was marked.
  bool empty() const { return waits_.empty(); }
  /// The number, from 1, of the wait that the device has come to and is not past; 0: none. `passed` says it
  /// of a mark.
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
  std::deque<Wait> waits_;  // that the device was not past when last asked
};

}  // namespace mtrun::collectives
