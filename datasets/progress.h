// A line that tells how far an import is: rewritten in place on a terminal, now and then through the log
// elsewhere.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "base/mutex.h"

namespace mtrun::datasets {

/// "12,345 of 60,000 images   20 %  24,690 images/s  2 s left". Pure; `seconds` since the start, when
/// `before` of the `done` ones were there already.
std::string ProgressText(int64_t done, int64_t total, double seconds, int64_t before = 0);
/// "1,234,567".
std::string WithCommas(int64_t number);

/// Writes to standard error from a thread of its own while it lives.
class Progress {
 public:
  /// `done` is read until the destructor has run; what it is now was made by an earlier attempt.
  Progress(int64_t total, const std::atomic<int64_t>& done);
  ~Progress();

 private:
  void Run();

  const int64_t total_, before_;
  const std::atomic<int64_t>& done_;
  Mutex mutex_;
  Condition stop_signal_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace mtrun::datasets
