// Who is how fast: adds up where each worker's steps go, and names one that keeps the others waiting. Pure;
// time is an argument. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "trainers/run/metrics_log.h"
#include "trainers/step/step_sums.h"

namespace mtrun::trainers {

class WorkerTimes {
 public:
  static constexpr Duration kEvery = std::chrono::seconds(10);  // a record
  static constexpr double kSlow = 1.3;  // times the median of all; of an even number the lower one
  static constexpr Duration kFor = std::chrono::seconds(60);

  /// A generation begins. `work[rank]`: micro-batches of that worker's part of a step, what its pace is
  /// measured by; one without any is never slow.
  void Restart(std::vector<int64_t> work, TimePoint now);
  /// One more step of all workers, by rank.
  void Add(const std::vector<StepTimes>& times);
  /// Every 10 s: the means since the last one, `steps` being finished.
  std::optional<WorkersRecord> Take(int64_t steps, TimePoint now);

  /// A worker that has been the slowest for a minute, at least kSlow times the median.
  struct Straggler {
    int rank = 0;
    double ratio = 0;  // to the median, in the last 10 s
    bool operator==(const Straggler&) const = default;
  };
  const std::optional<Straggler>& straggler() const { return straggler_; }
  bool operator==(const WorkerTimes&) const = default;

 private:
  std::optional<Straggler> Slowest() const;
  void Judge(TimePoint now);

  std::vector<int64_t> work_;
  std::vector<StepTimes> sums_;
  int64_t steps_ = 0;
  TimePoint since_;
  std::optional<int> suspect_;  // the slowest of the last record, if it is slow
  TimePoint suspected_;         // since when
  std::optional<Straggler> straggler_;
};

/// "rank 3 on node2 is slow: 1.62 times the median of the workers for a minute (compute 12.1 ms, data 0.3 ms
/// a step)". `host` "": not known.
std::string Describe(const WorkerTimes::Straggler& straggler, const WorkersRecord& record,
                     const std::string& host);

}  // namespace mtrun::trainers
