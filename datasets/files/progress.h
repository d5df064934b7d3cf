// Shows the progress of an import: one line rewritten in place on a terminal, otherwise periodic log lines.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "base/mutex.h"

namespace mtrun::datasets {

/// Returns "12,345 of 60,000 images   20 %  24,690 images/s  2 s left". Pure; `seconds` since the start, when
/// `before` of the images were done already.
std::string ProgressText(int64_t done, int64_t total, double seconds, int64_t before = 0);
/// Returns "1,234,567".
std::string WithCommas(int64_t number);

/// Writes to standard error from its own thread while it exists.
class Progress {
 public:
  /// Reads `done` until the destructor has returned; its value now is from an earlier attempt.
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
