#include "trainers/run/best_weights.h"

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "datasets/safetensors.h"
#include "trainers/device/torch_status.h"
#include "trainers/run/state_sync.h"
#include "trainers/weights/safetensors.h"

namespace mtrun::trainers {
namespace {

constexpr char kSteps[] = "steps";

/// kFailedPrecondition: the file is of other steps.
absl::Status LoadOf(const std::string& path, int64_t steps, const NamedTensors& weights) {
  MT_ASSIGN_OR_RETURN(const auto metadata, ReadMetadata(path));
  const auto of = metadata.find(kSteps);
  if (of == metadata.end() || of->second != absl::StrCat(steps))
    return absl::FailedPreconditionError(absl::StrCat(path, " is not of step ", steps));
  MT_ASSIGN_OR_RETURN(const NamedTensors loaded, LoadTensors(path));
  return CopyTensors(loaded, weights);
}

}  // namespace

std::map<std::string, std::string> WeightsMetadata(std::map<std::string, std::string> metadata, int64_t steps,
                                                   int64_t epoch) {
  metadata.insert_or_assign(kSteps, absl::StrCat(steps));
  metadata.insert_or_assign("epoch", absl::StrCat(epoch));
  return metadata;
}

absl::Status SaveBest(const std::string& folder, const TrainState& state, int64_t steps, int64_t epoch,
                      const std::map<std::string, std::string>& metadata) {
  NamedTensors weights = state.AveragedWeights();
  if (weights.empty()) weights = state.Weights();
  return SaveTensors(absl::StrCat(folder, "/", kBestFile), weights, WeightsMetadata(metadata, steps, epoch));
}

BorrowedWeights::BorrowedWeights(const TrainState& state) : weights_(state.Weights()) {
  for (const auto& [name, tensor] : weights_) own_.emplace_back(name, tensor.clone());
}

BorrowedWeights::~BorrowedWeights() {
  const absl::Status back = CopyTensors(own_, weights_);
  if (!back.ok()) log::Error("the run's own weights are not in place again: ", std::string(back.message()));
}

std::string BorrowedWeights::Load(const std::string& folder, std::optional<int64_t> steps, int64_t epoch) {
  const std::string path = absl::StrCat(folder, "/", kBestFile);
  const absl::Status loaded =
      steps ? LoadOf(path, *steps, weights_) : absl::NotFoundError("no epoch was evaluated");
  if (loaded.ok()) return absl::StrCat("epoch ", epoch);
  log::Warning("the final weights are tested, not those of epoch ", epoch, ": ",
               std::string(loaded.message()));
  return "";
}

absl::Status BorrowedWeights::Share(const collectives::ProcessGroup& group, int rank, int source,
                                    std::string& loaded) {
  std::vector<at::Tensor> tensors;
  for (const auto& item : weights_) tensors.push_back(item.second);
  return TakeOver(group, rank, source, tensors, loaded);
}

}  // namespace mtrun::trainers
