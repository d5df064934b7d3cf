// What a worker did last: its newest collectives and steps, kept for the moment in which something fails, to
// tell who waited for whom. A few hundred nanoseconds an entry. Thread-safe.
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
  /// Of each kind so many of the newest are kept.
  static constexpr size_t kKept = 200;

  /// This process's one.
  static FlightRecord& OfProcess();

  /// A collective was submitted; its number, from 1. `what`: a name that lives on.
  uint64_t Began(const char* what, int64_t bytes, TimePoint now);
  void Ended(uint64_t number, const absl::Status& status, TimePoint now);

  struct Step {
    int64_t step = 0;  // from 0
    double loss = 0, seconds = 0, compute = 0, wait = 0, data = 0;
    TimePoint ended{};
  };
  void Add(const Step& step);

  /// Lines of JSON in the order of time (docs/formats.md, "Flight records"), times in seconds before `now`:
  /// negative.
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
  std::deque<Collective> collectives_ ABSL_GUARDED_BY(mutex_);  // numbers without gaps
  std::deque<Step> steps_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mtrun::collectives
