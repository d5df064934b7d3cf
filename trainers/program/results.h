// What a finished run leaves in its folder beside its records: weights and report.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "trainers/run/report.h"
#include "trainers/step/train_state.h"

namespace mtrun::trainers {

/// model.safetensors, model_ema.safetensors where an average is kept, report.txt and report.json in `folder`.
/// `metadata`: of the files with weights.
absl::Status WriteResults(const std::string& folder, const TrainState& state, const RunReport& report,
                          const std::map<std::string, std::string>& metadata);

}  // namespace mtrun::trainers
