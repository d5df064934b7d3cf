// What this process logs, as an event to wait for.
#pragma once

#include <string>
#include <string_view>

#include "base/log.h"
#include "base/mutex.h"

namespace mtrun::support {

/// While it lives log lines come here instead of standard error. One at a time; thread-safe.
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

  /// Whether `text` is said by then, or has been.
  bool Await(std::string_view text, Duration patience) const {
    const TimePoint end = MonotonicNow() + patience;
    const MutexLock lock(mu_);
    while (said_.find(text) == std::string::npos) {
      if (MonotonicNow() >= end) return false;
      changed_.WaitUntil(mu_, end);
    }
    return true;
  }
  /// All so far.
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
