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
#include "trainers/engine/image_augmentation.h"
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
  std::string amp = "off";    // off, bf16, fp16, or auto: fp16 on a GPU, else off
  double clip_norm = 0;       // 0 = off
  double ema_decay = 0;       // 0 = off
  int64_t sync_shards = 0;    // --sync_bn over groups of so many micro-batches; 0 = off
  Augmentation augmentation;  // all off with --augment=false
  ImageAugmentation warps;    // likewise; flip and crop are in `augmentation`
  int image_size = 0;         // 0 = what the program takes
  int threads = 0;            // 0 = cores / workers on this node
  bool float64 = false;
  std::string device = "auto";
  std::string channels_last =
      "auto";                     // on, off, or auto: on a GPU with mixed precision, or as the program says
  bool tf32 = true;               // on a GPU, for float32
  bool graph = false;             // on a GPU: a step is recorded and replayed
  std::string resident = "auto";  // images on the device: on, off, or auto: on a GPU where they fit
  double resident_share = 0.5;    // of the GPU's free memory that they may take with auto
  int64_t eval_images = 0;        // test images evaluated, 0 = all
  int64_t log_every = 0;          // steps between progress lines, 0 = by time
  int64_t preview = 0;            // only write so many training images as a picture
  bool resume = true;             // from the newest checkpoint in model_folder
  int64_t checkpoint_steps = 0, checkpoint_epochs = 1;  // a checkpoint every so many, 0 = never
  double checkpoint_seconds = 0;                        // likewise
  int keep_checkpoints = 3;
  int drain_exit_code = 0;  // of a run that a signal stopped, 0 = 128 + the signal
};

/// What all workers of a job must agree on, as "name=value ..." text: paths, device, threads and logging are
/// left out.
std::string Fingerprint(const TrainOptions& options);

/// A program's own values for settings: {"learning_rate", "0.001"}.
using Recipe = std::vector<std::pair<std::string, std::string>>;

/// The table of settings with the recipe as defaults, and the program's own ones at its end. `aliases`: other
/// names of settings, {"model_folder", "checkpoint"}.
Settings MakeSettings(const std::string& program, const Recipe& recipe,
                      const std::vector<SettingSpec>& more = {},
                      const std::vector<std::pair<std::string, std::string>>& aliases = {});

/// Fills `settings` from `args` (without the program's name), the environment and the file named by --config.
/// False when the help text is asked for and nothing else is to be read. kInvalidArgument for unknown or
/// malformed settings.
absl::StatusOr<bool> ReadSettings(const std::string& program, const std::vector<std::string>& args,
                                  const EnvironmentMap& environment, Settings& settings);
/// The section `program` of a YAML file; what has been set from elsewhere stays.
absl::Status ApplySettingsFile(const std::string& path, const std::string& program, Settings& settings);
/// What a checkpoint was trained with and no restart may change: without global_batch among the settings it
/// takes the checkpoint's, whatever the number of workers now; batch_size likewise. Before MakeOptions.
void AdoptBatch(const datasets::BatchPlan& checkpoint, Settings& settings);
/// kInvalidArgument for settings that are missing or contradict each other. `configured_world`: workers that
/// the job is configured for. Without global_batch it is batch_size x accumulation_steps x workers; with
/// global_batch alone, batch_size is its share. What is derived is in `settings` too.
absl::StatusOr<TrainOptions> MakeOptions(int64_t configured_world, Settings& settings);

}  // namespace mtrun::engine
