// The settings of a training program: flag > environment (MT_<NAME>) > --config file (section = program) >
// the program's own recipe. Everything that a run depends on is in TrainOptions.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/settings.h"
#include "base/worker_env.h"
#include "datasets/sampler.h"
#include "trainers/engine/augment.h"
#include "trainers/engine/optimizer_options.h"
#include "trainers/engine/schedule.h"

namespace mtrun::engine {

/// Prefix of the environment variables: MT_BATCH_SIZE.
inline constexpr char kEnvironmentPrefix[] = "MT_";

struct TrainOptions {
  std::string data, model_folder, init_from;
  int64_t epochs = 1;
  int64_t max_steps = 0;  // 0 = all epochs
  datasets::BatchPlan plan;
  OptimizerOptions optimizer;
  Schedule schedule;  // `steps` is filled in once the data's size is known
  uint64_t seed = 0;
  bool shuffle = true;
  Augmentation augmentation;  // all off with --augment=false
  int image_size = 0;         // 0 = what the program takes
  int threads = 0;            // 0 = cores / workers on this node
  bool float64 = false;
  std::string device = "auto";
  int64_t log_every = 0;  // steps between progress lines, 0 = by time
};

/// What all workers of a job must agree on, as "name=value ..." text: paths, device, threads and logging are
/// left out.
std::string Fingerprint(const TrainOptions& options);

/// A program's own values for settings: {"learning_rate", "0.001"}.
using Recipe = std::vector<std::pair<std::string, std::string>>;

/// The table of settings with the recipe as defaults.
Settings MakeSettings(const std::string& program, const Recipe& recipe);

/// Fills `settings` from `args` (without the program's name), the environment and the file named by --config.
/// `help` asks for nothing else to be read.
struct Parsed {
  TrainOptions options;
  bool help = false;
};
/// kInvalidArgument for unknown or malformed settings and for those that contradict each other.
/// `configured_world`: workers that the job is configured for. Without global_batch it is batch_size x
/// accumulation_steps x workers; with global_batch alone, batch_size is its share. What is derived is in
/// `settings` too.
absl::StatusOr<Parsed> ParseOptions(const std::string& program, const std::vector<std::string>& args,
                                    const EnvironmentMap& environment, int64_t configured_world,
                                    Settings& settings);

}  // namespace mtrun::engine
