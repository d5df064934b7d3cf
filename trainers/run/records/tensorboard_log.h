// A run's curves for TensorBoard: the events of steps, evaluations and pictures, in `tb/` of the run folder
// (docs/formats.md). Every process that becomes the writer of a run starts its own file, whose first events
// rewind the steps that are computed again. Events are encoded when they are added (a few microseconds) and
// written just before the metrics, so the curves have every step that metrics.jsonl has. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "tensorboard/event_file.h"
#include "trainers/run/records/finished_step.h"
#include "trainers/step/confusion_matrix.h"

namespace mtrun::trainers {

class TensorboardLog {
 public:
  /// Opens an event file in `folder`/tb from step `next` on. kResourceExhausted: the disk is full.
  static absl::StatusOr<TensorboardLog> Open(const std::string& folder, int64_t next);

  /// Adds loss, accuracy, learning rate and duration of every step, and the occasional measurements if they
  /// are set. The rest is added once a second, and when the generation changes.
  void Add(const FinishedStep& step, TimePoint now);
  void Add(const EvalRecord& record);
  void AddMatrix(int64_t steps, const ConfusionMatrix& matrix);
  /// Adds an RGB image in PNG format; ignores other data.
  void AddPicture(std::string_view tag, int64_t step, std::string_view png);
  /// Adds the text of `config.yaml`.
  void AddSettings(int64_t step, const std::string& yaml);
  /// Writes pending events. If the disk is full, returns kResourceExhausted; the next Flush writes the rest.
  absl::Status Flush() { return file_.Flush(); }
  /// Discards the events that have not been written.
  void Drop() { file_.Drop(); }

 private:
  explicit TensorboardLog(tensorboard::EventFile file) : file_(std::move(file)) {}
  void AddGauges(const FinishedStep& step, TimePoint now);

  /// Sums over the steps since the last gauges.
  struct Sums {
    int64_t steps = 0, samples = 0;
    double seconds = 0;
    StepTimes times;
  };

  tensorboard::EventFile file_;
  Sums sums_;
  TimePoint gauged_{};
  uint64_t generation_ = 0;  // at the last gauges
};

}  // namespace mtrun::trainers
