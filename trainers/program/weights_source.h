// Trained weights that somebody names: a run's folder, a checkpoint or a file.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/settings.h"
#include "trainers/program/program.h"
#include "trainers/weights/safetensors.h"

namespace mtrun::trainers {

struct WeightsSource {
  std::string what;     // for people
  std::string file;     // with the weights
  std::string average;  // an optimizer file whose ema/ tensors count instead of the file's; "": none
  std::string config;   // config.yaml of the run; "": there is none
  std::map<std::string, std::string> metadata = {};  // of the file; empty: it has none
  std::string program = "";                          // that trained them; "": not known
};

/// Of a run: the weights that its report is of (the best ones where a validation split chose them), or the
/// newest intact checkpoint of a run that has not ended. Of a checkpoint: the average where it keeps one.
/// kNotFound, kInvalidArgument: there are none at `path`.
absl::StatusOr<WeightsSource> FindWeights(const std::string& path);

/// kInvalidArgument names both programs where the weights are another one's.
absl::Status CheckProgram(const WeightsSource& source, const std::string& program);

/// What the run was trained with and no flag says otherwise: the network and its images depend on it. Of its
/// config.yaml; weights that lie elsewhere say themselves what they need.
absl::Status AdoptRunSettings(const WeightsSource& source, const Program& program, Settings& settings);

/// Into the network; names and shapes must be exactly its own.
absl::Status LoadInto(const WeightsSource& source, const torch::nn::Module& module);

}  // namespace mtrun::trainers
