// model_best.safetensors: the weights of the epoch with the best evaluation, as they were evaluated (the
// moving average if one is kept). Training thread only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "trainers/collectives/cpu_group.h"
#include "trainers/step/train_state.h"

namespace mtrun::trainers {

inline constexpr char kBestFile[] = "model_best.safetensors";

/// Returns `metadata` plus the finished steps and the epoch, for the header of a weights file.
std::map<std::string, std::string> WeightsMetadata(std::map<std::string, std::string> metadata, int64_t steps,
                                                   int64_t epoch);

absl::Status SaveBest(const std::string& folder, const TrainState& state, int64_t steps, int64_t epoch,
                      const std::map<std::string, std::string>& metadata);

/// Returns a checkpoint's weights as they are evaluated: replaced by their averages if `rest` has any.
NamedTensors WithAverages(NamedTensors weights, const NamedTensors& rest);

/// Returns whether the best weights in `folder` are those after `steps` finished steps.
bool HoldsBest(const std::string& folder, int64_t steps);

/// Ensures that `folder` ends with the best epoch's weights, or none. It has another epoch's if the node that
/// wrote the best ones is gone, or if that epoch was rewound. The best ones are written again from the
/// checkpoint of `steps`. If that does not exist either, the other epoch's file is renamed, with a warning.
absl::Status KeepBestOf(const TrainState& state, const std::string& folder, int64_t steps, int64_t epoch,
                        const std::map<std::string, std::string>& metadata);

/// Lets the network compute with other weights. The destructor restores its own, bit for bit.
class BorrowedWeights {
 public:
  explicit BorrowedWeights(const TrainState& state);
  ~BorrowedWeights();
  BorrowedWeights(const BorrowedWeights&) = delete;

  /// Loads the weights after `steps` finished steps from `folder`'s best weights, else from its checkpoint of
  /// that step. Returns a description of them, or "" with a warning if there are none.
  std::string Load(const std::string& folder, std::optional<int64_t> steps, int64_t epoch);
  /// Copies the weights of rank `source` and its `loaded` ("" if it has none) to all members. Collective.
  absl::Status Share(const collectives::ProcessGroup& group, int rank, int source, std::string& loaded);

 private:
  const NamedTensors weights_;  // aliases
  NamedTensors own_;            // copies
};

}  // namespace mtrun::trainers
