// metrics.jsonl: one JSON object a line for each step and each evaluation, losses in full precision
// (docs/formats.md). Lines gather in memory and are written about once a second, at each evaluation and at
// the end. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/posix.h"

namespace mtrun::engine {

struct StepRecord {
  int64_t step = 0, epoch = 0;  // 0-based step of the run, 1-based epoch
  double loss = 0, learning_rate = 0;
  int64_t samples = 0;
  double seconds = 0;
};

struct EvalRecord {
  int64_t steps = 0, epoch = 0;               // finished steps and epochs
  double train_loss = 0, train_accuracy = 0;  // means over the epoch's steps, with the weights of each step
  double test_loss = 0, test_accuracy = 0;
  double seconds = 0;  // training part of the epoch
};

/// `{"step":0,"epoch":1,"loss":2.3025850929940459,"lr":0.001,"samples":16,"seconds":0.0009}`, numbers as
/// %.17g.
std::string ToLine(const StepRecord& record);
/// `{"eval":1,...}`.
std::string ToLine(const EvalRecord& record);

class MetricsLog {
 public:
  /// Starts the file anew.
  static absl::StatusOr<MetricsLog> Create(const std::string& path);
  MetricsLog(MetricsLog&&) = default;
  ~MetricsLog();

  absl::Status Write(const StepRecord& record, TimePoint now);
  absl::Status Write(const EvalRecord& record);
  absl::Status Flush();

 private:
  MetricsLog(std::string path, UniqueFd file) : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  UniqueFd file_;
  std::string pending_;
  TimePoint flushed_{};
};

}  // namespace mtrun::engine
