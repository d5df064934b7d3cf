// model_best.safetensors: the weights of the epoch that evaluation liked best, as they were evaluated (the
// average where one is kept). Training thread only.
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

/// What the weights' file of `steps` finished steps says of itself beside `metadata`.
std::map<std::string, std::string> WeightsMetadata(std::map<std::string, std::string> metadata, int64_t steps,
                                                   int64_t epoch);

absl::Status SaveBest(const std::string& folder, const TrainState& state, int64_t steps, int64_t epoch,
                      const std::map<std::string, std::string>& metadata);

/// A checkpoint's weights as they are evaluated: `rest` has the average of those that are averaged.
NamedTensors WithAverages(NamedTensors weights, const NamedTensors& rest);

/// Whether `folder`'s file is of `steps` finished steps.
bool HoldsBest(const std::string& folder, int64_t steps);

/// What `folder` holds at the end is the best epoch's file, or none: it may be another epoch's where the node
/// that wrote the best one's is gone, or where that epoch was taken back. Written again from the checkpoint
/// of `steps`; where that is not there either the other epoch's goes aside, with a warning.
absl::Status KeepBestOf(const TrainState& state, const std::string& folder, int64_t steps, int64_t epoch,
                        const std::map<std::string, std::string>& metadata);

/// While it lives the network may compute with other weights; then it has its own again, to the last bit.
class BorrowedWeights {
 public:
  explicit BorrowedWeights(const TrainState& state);
  ~BorrowedWeights();
  BorrowedWeights(const BorrowedWeights&) = delete;

  /// Takes those of `folder` that are of `steps` finished steps, else its checkpoint's of them: what they
  /// are, "" and a warning where there are none.
  std::string Load(const std::string& folder, std::optional<int64_t> steps, int64_t epoch);
  /// Everybody takes those of rank `source`, which has `loaded` them; "" where it has not. Collective.
  absl::Status Share(const collectives::ProcessGroup& group, int rank, int source, std::string& loaded);

 private:
  const NamedTensors weights_;  // aliases
  NamedTensors own_;            // copies
};

}  // namespace mtrun::trainers
