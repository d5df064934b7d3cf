// Speed of each worker: adds up how its steps spend their time, and names a worker that keeps the others
// waiting. Pure; time is an argument. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "trainers/run/records/metrics_log.h"
#include "trainers/step/step_sums.h"

namespace mtrun::trainers {

class WorkerTimes {
 public:
  static constexpr Duration kEvery = std::chrono::seconds(10);  // between records
  static constexpr double kSlow = 1.3;                          // times the median (the lower one of two)
  static constexpr Duration kFor = std::chrono::seconds(60);

  /// Begins a generation. `work[rank]`: micro-batches of that worker's part of a step, the measure of its
  /// pace. A worker without any is never slow.
  void Restart(std::vector<int64_t> work, TimePoint now);
  /// Adds a step of all workers, by rank.
  void Add(const std::vector<StepTimes>& times);
  /// Returns, every 10 s, the means since the last record. `steps` are finished.
  std::optional<WorkersRecord> Take(int64_t steps, TimePoint now);

  /// A worker that has been the slowest for a minute, with at least kSlow times the median.
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
  TimePoint suspected_;         // start of the suspicion
  std::optional<Straggler> straggler_;
};

/// Returns "rank 3 on node2 is slow: 1.62 times the median of the workers for a minute (compute 12.1 ms, data
/// 0.3 ms a step)". `host`: "" if unknown.
std::string Describe(const WorkerTimes::Straggler& straggler, const WorkersRecord& record,
                     const std::string& host);

}  // namespace mtrun::trainers
