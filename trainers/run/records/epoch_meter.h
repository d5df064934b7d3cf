// Adds up the steps of an epoch and measures their speed. Time is an argument. Training thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "trainers/run/records/metrics_log.h"
#include "trainers/run/records/progress.h"
#include "trainers/run/records/run_progress.h"
#include "trainers/run/rules/run_length.h"
#include "trainers/step/confusion_matrix.h"
#include "trainers/step/step_result.h"

namespace mtrun::trainers {

class EpochMeter {
 public:
  explicit EpochMeter(const RunLength& length) : length_(length) {}

  /// Measures the speed from `now` on, because the time before it was not spent on training.
  void Restart(TimePoint now, int64_t samples);

  /// Adds a step that took `seconds`. If it was skipped, adds only its samples and its time.
  static void Add(const StepResult& result, double seconds, RunProgress& progress);

  /// Returns the state after `steps` steps and `progress.samples` samples. The speed is that of the last
  /// seconds, back to Restart at most.
  ProgressState Show(int64_t steps, double loss, double learning_rate, const RunProgress& progress,
                     TimePoint now);

  /// Ends the epoch after `steps` steps. Returns its record and appends it to `progress`. Resets the sums if
  /// the epoch is whole; if --max_steps has cut it short, the run can be extended within it.
  EvalRecord EndEpoch(int64_t steps, double test_loss, const ConfusionMatrix& matrix, bool classified,
                      RunProgress& progress, std::optional<double> test_top5 = {}) const;

  /// Returns "3 epochs of 10 steps, since sample 40 2.000 s ago, 20.0 images/s".
  std::string Describe(TimePoint now) const;
  bool operator==(const EpochMeter&) const = default;

 private:
  RunLength length_;
  TimePoint since_;
  int64_t samples_ = 0;  // consumed until `since_`
  double speed_ = 0;     // images per second; 0: unknown
};

}  // namespace mtrun::trainers
