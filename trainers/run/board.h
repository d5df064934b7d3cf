// A run's curves for TensorBoard: the events of steps, evaluations and pictures, in `tb/` of the run folder
// (docs/formats.md). Every process that comes to write a run starts a file of its own, whose first events
// take back what earlier ones say of the steps that are done again. Events are encoded as they come (a few
// microseconds) and written with the metrics, right before them: what metrics.jsonl has, the curves have. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "tensorboard/event_file.h"
#include "trainers/run/finished_step.h"
#include "trainers/step/confusion_matrix.h"

namespace mtrun::trainers {

class Board {
 public:
  /// In `folder`/tb, from step `next` on. kResourceExhausted: the disk is full.
  static absl::StatusOr<Board> Open(const std::string& folder, int64_t next);

  /// Loss, accuracy, rate and duration of every step; what is looked at now and then where it is filled in;
  /// the rest once a second, or when the generation is another one.
  void Add(const FinishedStep& step, TimePoint now);
  void Add(const EvalRecord& record);
  void AddMatrix(int64_t steps, const ConfusionMatrix& matrix);
  /// A PNG file, of RGB; others are left out.
  void AddPicture(std::string_view tag, int64_t step, std::string_view png);
  /// `config.yaml`, as it is shown.
  void AddSettings(int64_t step, const std::string& yaml);
  /// kResourceExhausted: the disk is full, and what it has no room for is written by the next Flush.
  absl::Status Flush() { return file_.Flush(); }
  /// What has not been written never is.
  void Drop() { file_.Drop(); }

 private:
  explicit Board(tensorboard::EventFile file) : file_(std::move(file)) {}
  void AddGauges(const FinishedStep& step, TimePoint now);

  /// Since the last gauges.
  struct Sums {
    int64_t steps = 0, samples = 0;
    double seconds = 0;
    StepTimes times;
  };

  tensorboard::EventFile file_;
  Sums sums_;
  TimePoint gauged_{};
  uint64_t generation_ = 0;  // of the last gauges
};

}  // namespace mtrun::trainers
