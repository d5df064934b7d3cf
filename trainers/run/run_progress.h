// What a run holds beside tensors: counters, sums of the running epoch and history, as JSON for
// checkpoints and for members that take a run over. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "trainers/run/finished_step.h"
#include "trainers/run/metrics_log.h"

namespace mtrun::trainers {

/// Sums over the steps of the epoch that is under way.
struct EpochSums {
  double loss = 0;  // over the samples
  int64_t correct = 0, samples = 0;
  double seconds = 0;  // of training
  bool operator==(const EpochSums&) const = default;
};

struct RunProgress {
  int64_t samples = 0;  // consumed in all
  EpochSums sums;
  double seconds = 0;  // of the whole run, over all its processes
  double saving = 0;   // what the last checkpoint that is known took to be written, in seconds
  std::vector<EvalRecord> history;
  std::vector<int64_t> confusion;  // of the last evaluation; empty without classes
  bool finished = false;           // its results are written
  int64_t schedule_steps = 0;      // how long its schedule was; 0 in checkpoints of earlier releases
  // The record of the last step, so that a new writer can write its lines if the writer before died before it
  // did. Nothing before the first step, and in checkpoints of earlier releases.
  std::optional<FinishedStep> last_step;
  bool operator==(const RunProgress&) const = default;
};

nlohmann::json ToJson(const RunProgress& progress);
/// kInvalidArgument names the malformed part.
absl::StatusOr<RunProgress> RunProgressFromJson(const nlohmann::json& json);

}  // namespace mtrun::trainers
