// Adds up the steps of an epoch and measures how fast they pass. Time is an argument. Training thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "trainers/run/metrics_log.h"
#include "trainers/run/progress.h"
#include "trainers/run/run_length.h"
#include "trainers/run/run_progress.h"
#include "trainers/step/confusion_matrix.h"
#include "trainers/step/step_result.h"

namespace mtrun::trainers {

class EpochMeter {
 public:
  explicit EpochMeter(const RunLength& length) : length_(length) {}

  /// Speed counts from here: what passed since then was no training.
  void Restart(TimePoint now, int64_t samples);

  /// One more step, that took `seconds`. A skipped one counts its samples and its time alone.
  static void Add(const StepResult& result, double seconds, RunProgress& progress);

  /// After `steps` steps, `progress.samples` in all; the speed is that of the last seconds, since Restart at
  /// most.
  ProgressState Show(int64_t steps, double loss, double learning_rate, const RunProgress& progress,
                     TimePoint now);

  /// The epoch ends after `steps` steps: its record, which `progress` gets too; the sums begin again.
  EvalRecord EndEpoch(int64_t steps, double test_loss, const ConfusionMatrix& matrix, bool classified,
                      RunProgress& progress, std::optional<double> test_top5 = {}) const;

  /// "3 epochs of 10 steps, since sample 40 2.000 s ago, 20.0 images/s".
  std::string Describe(TimePoint now) const;
  bool operator==(const EpochMeter&) const = default;

 private:
  RunLength length_;
  TimePoint since_;
  int64_t samples_ = 0;  // consumed until then
  double speed_ = 0;     // images a second, 0: not known yet
};

}  // namespace mtrun::trainers
