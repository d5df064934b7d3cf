#include "trainers/run/loop/best_weights.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "trainers/checkpoints/checkpoint.h"
#include "trainers/checkpoints/manifest.h"
#include "trainers/device/torch_status.h"
#include "trainers/run/loop/state_sync.h"
#include "trainers/weights/safetensors.h"

namespace mtrun::trainers {
namespace {

constexpr char kSteps[] = "steps";

/// Returns kFailedPrecondition if the file is from other steps.
absl::Status CheckSteps(const std::string& path, int64_t steps) {
  MT_ASSIGN_OR_RETURN(const auto metadata, ReadMetadata(path));
  const auto of = metadata.find(kSteps);
  if (of != metadata.end() && of->second == absl::StrCat(steps)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(path, " is not from step ", steps));
}

absl::Status LoadOf(const std::string& path, int64_t steps, const NamedTensors& weights) {
  MT_RETURN_IF_ERROR(CheckSteps(path, steps));
  MT_ASSIGN_OR_RETURN(const NamedTensors loaded, LoadTensors(path));
  return CopyTensors(loaded, weights);
}

/// Loads the weights as evaluated. A node that did not write the run's files then has only its checkpoint.
absl::Status LoadOfCheckpoint(const std::string& folder, int64_t steps, const NamedTensors& weights) {
  const std::string path = absl::StrCat(folder, "/", checkpoints::StepFolder(steps));
  MT_ASSIGN_OR_RETURN(const checkpoints::Checkpoint checkpoint,
                      checkpoints::ReadCheckpoint(checkpoints::RealFiles(), path, steps));
  MT_ASSIGN_OR_RETURN(const NamedTensors loaded, ParseTensors(checkpoint.model));
  MT_ASSIGN_OR_RETURN(const NamedTensors rest, ParseTensors(checkpoint.optimizer));
  return CopyTensors(WithAverages(loaded, rest), weights);
}

/// Loads from the best weights' file or else from the checkpoint. If both fail, returns the file's error.
absl::Status LoadEither(const std::string& folder, int64_t steps, const NamedTensors& weights) {
  const absl::Status loaded = LoadOf(absl::StrCat(folder, "/", kBestFile), steps, weights);
  if (loaded.ok() || LoadOfCheckpoint(folder, steps, weights).ok()) return absl::OkStatus();
  return loaded;
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

NamedTensors WithAverages(NamedTensors weights, const NamedTensors& rest) {
  const std::map<std::string, at::Tensor> others(rest.begin(), rest.end());
  for (auto& [name, tensor] : weights) {
    if (const auto average = others.find(absl::StrCat("ema/", name)); average != others.end())
      tensor = average->second;
  }
  return weights;
}

bool HoldsBest(const std::string& folder, int64_t steps) {
  return CheckSteps(absl::StrCat(folder, "/", kBestFile), steps).ok();
}

absl::Status KeepBestOf(const TrainState& state, const std::string& folder, int64_t steps, int64_t epoch,
                        const std::map<std::string, std::string>& metadata) {
  if (HoldsBest(folder, steps)) return absl::OkStatus();
  NamedTensors weights;  // copies, so that the network does not change
  for (const auto& [name, tensor] : state.Weights()) weights.emplace_back(name, tensor.clone());
  const absl::Status loaded = LoadOfCheckpoint(folder, steps, weights);
  const std::string path = absl::StrCat(folder, "/", kBestFile);
  if (loaded.ok()) return SaveTensors(path, weights, WeightsMetadata(metadata, steps, epoch));
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return absl::OkStatus();
  const std::string aside = path + ".of_another_epoch";
  std::filesystem::rename(path, aside, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("rename ", path, " to ", aside));
  log::Warning(path, " is not from epoch ", epoch, ", the best one, and was renamed to ", aside, ": ",
               std::string(loaded.message()));
  return absl::OkStatus();
}

BorrowedWeights::BorrowedWeights(const TrainState& state) : weights_(state.Weights()) {
  for (const auto& [name, tensor] : weights_) own_.emplace_back(name, tensor.clone());
}

BorrowedWeights::~BorrowedWeights() {
  const absl::Status back = CopyTensors(own_, weights_);
  if (!back.ok()) log::Error("could not restore the run's own weights: ", std::string(back.message()));
}

std::string BorrowedWeights::Load(const std::string& folder, std::optional<int64_t> steps, int64_t epoch) {
  const absl::Status loaded =
      steps ? LoadEither(folder, *steps, weights_) : absl::NotFoundError("no epoch was evaluated");
  if (loaded.ok()) return absl::StrCat("epoch ", epoch);
  log::Warning("testing the final weights instead of those of epoch ", epoch, ": ",
               std::string(loaded.message()));
  return "";
}

absl::Status BorrowedWeights::Share(const collectives::ProcessGroup& group, int rank, int source,
                                    std::string& loaded) {
  return TakeOver(group, rank, source, /*receives=*/true, weights_, loaded);
}

}  // namespace mtrun::trainers
