#include "trainers/program/results.h"

#include "base/status_macros.h"
#include "trainers/run/loop/best_weights.h"
#include "trainers/weights/safetensors.h"

namespace mtrun::trainers {

absl::Status WriteResults(const std::string& folder, const TrainState& state, const RunReport& report,
                          const std::map<std::string, std::string>& described) {
  const auto metadata = WeightsMetadata(described, report.steps, report.epochs);
  MT_RETURN_IF_ERROR(SaveTensors(folder + "/model.safetensors", state.Weights(), metadata));
  if (const NamedTensors averaged = state.AveragedWeights(); !averaged.empty()) {
    MT_RETURN_IF_ERROR(SaveTensors(folder + "/model_ema.safetensors", averaged, metadata));
  }
  return WriteReport(report, folder);
}

}  // namespace mtrun::trainers
