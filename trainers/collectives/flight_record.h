// The newest collectives and steps of a worker, kept to show after a failure which rank waited for which. An
// entry costs a few hundred nanoseconds. Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace mtrun::collectives {

class FlightRecord {
 public:
  /// Number of collectives, and of steps, that are kept.
  static constexpr size_t kKept = 200;

  /// Returns the record of this process.
  static FlightRecord& OfProcess();

  /// Adds a submitted collective and returns its number, from 1. `what`: a name that outlives the record.
  uint64_t Began(const char* what, int64_t bytes, TimePoint now);
  void Ended(uint64_t number, const absl::Status& status, TimePoint now);

  struct Step {
    int64_t step = 0;  // from 0
    double loss = 0, seconds = 0, compute = 0, wait = 0, data = 0;
    TimePoint ended{};
  };
  void Add(const Step& step);

  /// Returns JSON lines in the order of time (docs/formats.md, "Flight records"). Times are in seconds
  /// relative to `now`, therefore negative.
  std::string Lines(TimePoint now) const;

 private:
  struct Collective {
    uint64_t number = 0;
    const char* what = "";
    int64_t bytes = 0;
    TimePoint began{}, ended{};
    bool done = false;
    std::string error;
  };

  mutable Mutex mutex_;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Collective> collectives_ ABSL_GUARDED_BY(mutex_);  // consecutive numbers
  std::deque<Step> steps_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mtrun::collectives
