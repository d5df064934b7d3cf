#include "trainers/run/records/epoch_meter.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace mtrun::trainers {

void EpochMeter::Restart(TimePoint now, int64_t samples) {
  since_ = now;
  samples_ = samples;
  speed_ = 0;
}

void EpochMeter::Add(const StepResult& result, double seconds, RunProgress& progress) {
  EpochSums& sums = progress.sums;
  if (!result.skipped) {
    sums.loss += result.loss * static_cast<double>(result.samples);
    sums.correct += result.correct;
    sums.samples += result.samples;
  }
  sums.seconds += seconds;
  progress.samples += result.samples;
}

ProgressState EpochMeter::Show(int64_t steps, double loss, double learning_rate, const RunProgress& progress,
                               TimePoint now) {
  // A terminal gets a line every 0.2 s, which is too short for a number that people read.
  constexpr double kSeconds = 2;
  const double passed = ToSeconds(now - since_);
  const double measured = PerSecond(progress.samples - samples_, passed);
  const double before = speed_, kept = before == 0 ? 0 : std::exp(-passed / kSeconds);
  Restart(now, progress.samples);
  const double speed = speed_ = kept * before + (1 - kept) * measured;
  const double samples_per_step = static_cast<double>(progress.samples) / static_cast<double>(steps);
  return {.epoch = length_.EpochOf(steps),
          .epochs = length_.epochs,
          .step = steps,
          .steps = length_.steps,
          .loss = loss,
          .learning_rate = learning_rate,
          .images_per_second = speed,
          .seconds_left = static_cast<double>(length_.steps - steps) * samples_per_step / speed};
}

std::string EpochMeter::Describe(TimePoint now) const {
  return absl::StrFormat("%d epochs of %d steps, since sample %d %.3f s ago, %.1f images/s", length_.epochs,
                         length_.steps_per_epoch, samples_, ToSeconds(now - since_), speed_);
}

EvalRecord EpochMeter::EndEpoch(int64_t steps, double test_loss, const ConfusionMatrix& matrix,
                                bool classified, RunProgress& progress,
                                std::optional<double> test_top5) const {
  const EpochSums& sums = progress.sums;
  const auto seen = static_cast<double>(std::max<int64_t>(sums.samples, 1));
  const EvalRecord record{.steps = steps,
                          .epoch = length_.EpochOf(steps),
                          .train_loss = sums.loss / seen,
                          .train_accuracy = static_cast<double>(sums.correct) / seen,
                          .test_loss = test_loss,
                          .test_accuracy = matrix.Accuracy(),
                          .seconds = sums.seconds,
                          .test_top5 = test_top5,
                          .classified = classified};
  progress.history.push_back(record);
  progress.confusion = matrix.counts();
  const bool whole = steps % length_.steps_per_epoch == 0;
  if (whole) progress.sums = {};
  return record;
}

}  // namespace mtrun::trainers
