// Log lines of this process, as events to wait for.
#pragma once

#include <string>
#include <string_view>

#include "base/log.h"
#include "base/mutex.h"

namespace mtrun::support {

/// Captures log lines instead of standard error during its lifetime. One at a time; thread-safe.
class LogLines {
 public:
  LogLines() {
    log::SetSink([this](const std::string& line) {
      const MutexLock lock(mu_);
      said_ += line;
      changed_.NotifyAll();
    });
  }
  ~LogLines() { log::SetSink({}); }
  LogLines(const LogLines&) = delete;

  /// Waits until `text` is logged; returns whether it was, now or before.
  bool Await(std::string_view text, Duration patience) const {
    const TimePoint end = MonotonicNow() + patience;
    const MutexLock lock(mu_);
    while (said_.find(text) == std::string::npos) {
      if (MonotonicNow() >= end) return false;
      changed_.WaitUntil(mu_, end);
    }
    return true;
  }
  /// Returns all lines so far.
  std::string Text() const {
    const MutexLock lock(mu_);
    return said_;
  }

 private:
  mutable Mutex mu_;
  mutable Condition changed_;
  std::string said_ ABSL_GUARDED_BY(mu_);
};

}  // namespace mtrun::support
