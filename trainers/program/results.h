// Weights and report that a finished run leaves in its folder, beside its records.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "trainers/run/records/report.h"
#include "trainers/step/train_state.h"

namespace mtrun::trainers {

/// Writes model.safetensors, model_ema.safetensors if an average is kept, report.txt and report.json to
/// `folder`. `metadata`: for the weights files.
absl::Status WriteResults(const std::string& folder, const TrainState& state, const RunReport& report,
                          const std::map<std::string, std::string>& metadata);

}  // namespace mtrun::trainers
