// Trained weights at a given path: a run folder, a checkpoint or a file.
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
  std::string what;     // name for messages
  std::string file;     // file with the weights
  std::string average;  // optimizer file whose ema/ tensors replace the file's; "": none
  std::string config;   // config.yaml of the run; "": none
  std::map<std::string, std::string> metadata = {};  // of the file; empty: it has none
  std::string program = "";                          // program that trained them; "": not known
};

/// Finds the weights at `path`. A run yields the weights that its report describes (the best ones if a
/// validation split chose them). If it has not ended, it yields its newest intact checkpoint. A checkpoint
/// yields the average if it keeps one. Returns kNotFound or kInvalidArgument if there are none.
absl::StatusOr<WeightsSource> FindWeights(const std::string& path);

/// Returns kInvalidArgument if the weights are another program's. The message names both programs.
absl::Status CheckProgram(const WeightsSource& source, const std::string& program);

/// Adopts the settings that the network and its images depend on, unless a flag sets them. They are in the
/// run's config.yaml. Weights without one describe their own settings.
absl::Status AdoptRunSettings(const WeightsSource& source, const Program& program, Settings& settings);

/// Copies the weights into the network. Names and shapes must match exactly.
absl::Status LoadInto(const WeightsSource& source, const torch::nn::Module& module);

}  // namespace mtrun::trainers
