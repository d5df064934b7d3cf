#include "trainers/program/results.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainers/weights/safetensors.h"

namespace mtrun::trainers {

absl::Status WriteResults(const std::string& folder, const TrainState& state, const RunReport& report) {
  const std::map<std::string, std::string> metadata = {{"program", report.program},
                                                       {"steps", absl::StrCat(report.steps)}};
  MT_RETURN_IF_ERROR(SaveTensors(folder + "/model.safetensors", state.Weights(), metadata));
  if (const NamedTensors averaged = state.AveragedWeights(); !averaged.empty()) {
    MT_RETURN_IF_ERROR(SaveTensors(folder + "/model_ema.safetensors", averaged, metadata));
  }
  return WriteReport(report, folder);
}

}  // namespace mtrun::trainers
