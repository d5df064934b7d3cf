// The settings of a training program: flag > environment (MT_<NAME>) > --config file (section = program) >
// the program's own recipe. Everything that a run depends on is in TrainOptions. An option is a member there
// and a row in option_list.h. Free of LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/settings.h"
#include "base/worker_env.h"
#include "datasets/cache/set_request.h"
#include "datasets/sampler.h"
#include "trainers/input/source_options.h"
#include "trainers/optim/lr_schedule.h"
#include "trainers/optim/optimizer_options.h"
#include "trainers/run/option.h"

namespace mtrun::trainers {

/// Prefix of the environment variables: MT_BATCH_SIZE.
inline constexpr char kEnvironmentPrefix[] = "MT_";

struct TrainOptions {
  std::string data, model_folder, init_from;
  datasets::RemoteOptions remote;  // where `data` is a URL
  int64_t epochs = 1;
  int64_t max_steps = 0;        // 0 = all epochs
  int64_t schedule_epochs = 0;  // how long a schedule is, 0 = as the run
  datasets::BatchPlan plan;
  OptimizerOptions optimizer;
  int64_t warmup_epochs = 0;  // instead of schedule.warmup_steps, 0 = these
  LrSchedule schedule;        // `steps` is filled in once the data's size is known
  uint64_t seed = 0;
  datasets::Shuffle shuffle = datasets::Shuffle::kFull;
  int64_t shuffle_window = datasets::kStreamWindow;  // shards that a stream mixes
  std::string amp = "off";                           // off, bf16, fp16, or auto: fp16 on a GPU, else off
  double clip_norm = 0;                              // 0 = off
  double ema_decay = 0;                              // 0 = off
  int64_t sync_micro_batches = 0;    // --sync_bn over groups of so many micro-batches; 0 = off
  Augmentation augmentation;         // all off with --augment=false
  ImageAugmentation warps;           // likewise; flip and crop are in `augmentation`
  bool random_resized_crop = false;  // likewise
  RandomCrop crop;                   // of random_resized_crop
  Reading reading;                   // but for crop and decode, see ReadingNow; jitter is augmentation too
  DecodeChoice decode = DecodeChoice::kAuto;
  int image_size = 0;            // 0 = what the program takes
  int eval_image_size = 0;       // of test images, 0 = image_size
  double eval_part = 1;          // of the shorter side of encoded test images, that is shown
  int read_threads = 0;          // that decode training images, 0 = as threads
  int read_ahead = 4;            // micro-batches ...
  int64_t read_ahead_mib = 512;  // ... and at most so much
  int threads = 0;               // 0 = cores / workers on this node
  bool float64 = false;
  std::string device = "auto";
  std::string channels_last =
      "auto";                      // on, off, or auto: on a GPU with mixed precision, or as the program says
  bool tf32 = true;                // on a GPU, for float32
  bool graph = false;              // on a GPU: a step is recorded and replayed
  bool encrypt_gradients = false;  // between hosts, on CPUs
  std::string resident = "auto";   // images on the device: on, off, or auto: on a GPU where they fit
  double resident_share = 0.5;     // of the GPU's free memory that they may take with auto
  int64_t eval_images = 0;         // test images evaluated, 0 = all
  int64_t log_every = 0;           // steps between progress lines, 0 = by time
  int64_t preview = 0;             // only write so many training images as a picture
  bool resume = true;              // from the newest checkpoint in model_folder
  std::string random_streams = "same";  // which random numbers a checkpoint may have: same, new
  int64_t checkpoint_steps = 0, checkpoint_epochs = 1;  // a checkpoint every so many, 0 = never
  double checkpoint_seconds = 0;                        // likewise
  int keep_checkpoints = 3;
  bool tensorboard = true;            // curves in tb/ of the model_folder
  bool report = true;                 // report.html beside them when the run is complete
  int drain_exit_code = 0;            // of a run that a signal stopped, 0 = 128 + the signal
  double validation_share = 0;        // of the training images, kept back to choose the best epoch by
  int64_t early_stopping_epochs = 0;  // without a better one that end the run, 0 = never

  int test_image_size() const { return eval_image_size > 0 ? eval_image_size : image_size; }
  SourceOptions source() const {
    return {.seed = seed,
            .plan = plan,
            .shuffle = shuffle,
            .shuffle_window = shuffle_window,
            .augmentation = augmentation,
            .warps = warps,
            .reading = ReadingNow()};
  }
  Reading ReadingNow() const {
    Reading now = reading;
    if (random_resized_crop) now.crop = crop;
    now.decode = DecodeModeFor(decode, now);
    return now;
  }
};

/// A program's own values for settings: {"learning_rate", "0.001"}.
using Recipe = std::vector<std::pair<std::string, std::string>>;

/// All options of a program: the rows of option_list.h, then its `own`.
std::vector<Option> AllOptions(const std::string& program, const std::vector<Option>& own = {});

/// The table of settings with the recipe as defaults, and the program's own ones at its end. `aliases`: other
/// names of settings, {"model_folder", "checkpoint"}.
Settings MakeSettings(const std::string& program, const Recipe& recipe, const std::vector<Option>& own = {},
                      const std::vector<std::pair<std::string, std::string>>& aliases = {});

/// Set by an mtrun that has run the program with --check before: what was warned of is known.
inline constexpr char kCheckedVariable[] = "MTRUN_CHECKED";

/// Fills `settings` from `args` (without the program's name), the environment and the file named by --config.
/// False when the help text or the version is asked for and nothing else is to be read. `more`: with
/// --predict, the files that follow. kInvalidArgument for unknown or malformed settings.
absl::StatusOr<bool> ReadSettings(const std::string& program, const std::vector<std::string>& args,
                                  const EnvironmentMap& environment, Settings& settings,
                                  std::vector<std::string>* more = nullptr);
/// The section `program` of a YAML file; what has been set from elsewhere stays.
absl::Status ApplySettingsFile(const std::string& path, const std::string& program, Settings& settings,
                               MissingSection missing = MissingSection::kWarn);
/// What a checkpoint was trained with and no restart may change: without global_batch among the settings, or
/// with the checkpoint's, it takes the checkpoint's, whatever the number of workers now; batch_size likewise.
/// Before MakeOptions.
void AdoptBatch(const datasets::BatchPlan& checkpoint, Settings& settings);
/// kInvalidArgument for settings that are missing or contradict each other. `configured_world`: workers that
/// the job is configured for. Without global_batch it is batch_size x accumulation_steps x workers; with
/// global_batch alone, batch_size is its share. What is derived is in `settings` too.
absl::StatusOr<TrainOptions> MakeOptions(int64_t configured_world, Settings& settings);

}  // namespace mtrun::trainers
