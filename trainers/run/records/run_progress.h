// The run's state besides tensors: counters, sums of the current epoch and history, as JSON for checkpoints
// and for members that take a run over. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "trainers/run/records/finished_step.h"
#include "trainers/run/records/metrics_log.h"

namespace mtrun::trainers {

/// Sums over the steps of the current epoch.
struct EpochSums {
  double loss = 0;  // over the samples
  int64_t correct = 0, samples = 0;
  double seconds = 0;  // of training
  bool operator==(const EpochSums&) const = default;
};

struct RunProgress {
  int64_t samples = 0;  // consumed in total
  EpochSums sums;
  double seconds = 0;  // the whole run's, over all its processes
  double saving = 0;   // seconds that the last known checkpoint took to write
  std::vector<EvalRecord> history;
  std::vector<int64_t> confusion;          // the last evaluation's; empty without classes
  bool finished = false;                   // its results are written
  int64_t schedule_steps = 0;              // length of its schedule; 0 in checkpoints of earlier releases
  int64_t threads = 0;                     // of each worker, on CPUs; 0 likewise
  std::vector<std::string> machines = {};  // kinds that have computed it, sorted (machines.h); empty likewise
  // The record of the last step, so that a new writer can write its lines if the previous writer died first.
  // Unset before the first step, and in checkpoints of earlier releases.
  std::optional<FinishedStep> last_step;
  bool operator==(const RunProgress&) const = default;
};

nlohmann::json ToJson(const RunProgress& progress);
/// Parses the JSON; kInvalidArgument names the malformed part.
absl::StatusOr<RunProgress> RunProgressFromJson(const nlohmann::json& json);

/// Returns the mean speed, 0 if no time has passed.
inline double PerSecond(int64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

}  // namespace mtrun::trainers
