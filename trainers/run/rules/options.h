// The settings of a training program, by precedence: flag > environment (MT_<NAME>) > --config file (section
// = program) > the program's own recipe. Everything that a run depends on is in TrainOptions. An option is a
// member there and a row in option_list.h. Does not depend on LibTorch.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/settings.h"
#include "base/worker_env.h"
#include "datasets/cache/set_request.h"
#include "datasets/order/sampler.h"
#include "trainers/input/mixing.h"
#include "trainers/input/source_options.h"
#include "trainers/optim/lr_schedule.h"
#include "trainers/optim/optimizer_options.h"
#include "trainers/run/rules/option.h"

namespace mtrun::trainers {

/// Prefix of the environment variables: MT_BATCH_SIZE.
inline constexpr char kEnvironmentPrefix[] = "MT_";

/// Exit statuses of a failed trainer that mtrun acts on: another try would fail in the same way; two members
/// hold different states of one step, which ends the job (rendezvous/job/restart_budget.h).
inline constexpr int kWrongSettingsStatus = 2, kDifferentStatesStatus = 3;

struct TrainOptions {
  std::string data, model_folder, init_from;
  datasets::RemoteOptions remote;  // if `data` is a URL
  int64_t epochs = 1;
  int64_t max_steps = 0;        // 0 = all epochs
  int64_t schedule_epochs = 0;  // length of the schedule, 0 = that of the run
  datasets::BatchPlan plan;
  OptimizerOptions optimizer;
  int64_t warmup_epochs = 0;  // replaces schedule.warmup_steps if not 0
  double warmup_share = 1;    // largest part of the schedule's steps that the warm-up takes
  LrSchedule schedule;        // `steps` is set once the data's size is known
  uint64_t seed = 0;
  datasets::Shuffle shuffle = datasets::Shuffle::kFull;
  int64_t shuffle_window = datasets::kStreamWindow;  // shards that each stream mixes
  std::string amp = "off";                           // off, bf16, fp16, or auto: fp16 on a GPU, else off
  double clip_norm = 0;                              // 0 = off
  double ema_decay = 0;                              // 0 = off
  int64_t sync_micro_batches = 0;                    // micro-batches of a --sync_bn group, 0 = off
  Augmentation augmentation;                         // all off if --augment=false
  ImageAugmentation warps;                           // likewise; flip and crop are in `augmentation`
  bool random_resized_crop = false;                  // likewise
  RandomCrop crop;                                   // for random_resized_crop
  Mixing mixing;                                     // likewise
  std::string class_weights = "none";                // or balanced
  Reading reading;  // except crop and decode, see ReadingNow; jitter is augmentation too
  DecodeChoice decode = DecodeChoice::kAuto;
  int image_size = 0;            // 0 = the program's own
  int eval_image_size = 0;       // for test images, 0 = image_size
  double eval_part = 1;          // shown part of the shorter side of encoded test images
  int read_threads = 0;          // threads that decode training images, 0 = as threads
  int read_ahead = 4;            // micro-batches ...
  int64_t read_ahead_mib = 512;  // ... and at most this much memory
  int threads = 0;               // 0 = cores / workers on this node
  bool float64 = false;
  std::string device = "auto";
  // on, off, or auto: on a GPU with mixed precision, or as the program says
  std::string channels_last = "auto";
  bool tf32 = true;                     // on a GPU, for float32
  bool graph = false;                   // on a GPU: a step is captured and replayed
  bool encrypt_gradients = false;       // between hosts, on CPUs
  std::string same_kind = "warn";       // or "require": refuses several kinds of machines
  std::string resident = "auto";        // images on the device: on, off, or auto: on a GPU if they fit
  double resident_share = 0.5;          // part of the GPU's free memory for them with auto
  int64_t eval_images = 0;              // test images per evaluation, 0 = all
  int64_t log_every = 0;                // steps between progress lines, 0 = by time
  int64_t preview = 0;                  // if not 0, only write this many training images as a picture
  bool resume = true;                   // from the newest checkpoint in model_folder
  std::string random_streams = "same";  // random numbers that a checkpoint can have: same, new
  int64_t checkpoint_steps = 0, checkpoint_epochs = 1;  // distance between checkpoints, 0 = never
  double checkpoint_seconds = 0;                        // likewise
  int keep_checkpoints = 3;
  bool tensorboard = true;            // curves in tb/ of the model_folder
  bool result_file = false;           // figures as {batch}_{epochs}_{nodes}_{gpus}.txt, with the report
  bool report = true;                 // report.html in the model_folder when the run is complete
  int drain_exit_code = 0;            // if a signal stopped the run, 0 = 128 + the signal
  double validation_share = 0;        // part of the training images, held back to choose the best epoch
  int64_t early_stopping_epochs = 0;  // ends the run after that many without a better one, 0 = never

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
  /// Returns whether training sees an image in another form each time.
  bool ChangesImages() const {
    return augmentation.any() || warps.any() || mixing.any() || ReadingNow().changes();
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

/// Returns a sentence about flags that count only with --augment, if that is off; "" if there are none.
std::string DescribeUnusedAugmentation(const Settings& settings);

/// Returns all options of a program: the rows of option_list.h, then its `own`.
std::vector<Option> AllOptions(const std::string& program, const std::vector<Option>& own = {});

/// Returns the table of settings with the recipe as defaults, followed by the program's own. `aliases`: other
/// names of settings, {"model_folder", "checkpoint"}.
Settings MakeSettings(const std::string& program, const Recipe& recipe, const std::vector<Option>& own = {},
                      const std::vector<std::pair<std::string, std::string>>& aliases = {});

/// Set by an mtrun that has run the program with --check before, so that warnings are not repeated.
inline constexpr char kCheckedVariable[] = "MTRUN_CHECKED";

/// Fills `settings` from `args` (without the program's name), the environment and the file named by --config.
/// Returns false if the help text or the version is requested, and then reads nothing else. `more` receives
/// the files that follow with --predict. Returns kInvalidArgument for unknown or malformed settings, and for a
/// flag of a mode (--out with --predict) without the mode. `derive`: of Program.
absl::StatusOr<bool> ReadSettings(const std::string& program, const std::vector<std::string>& args,
                                  const EnvironmentMap& environment, Settings& settings,
                                  std::vector<std::string>* more = nullptr,
                                  const std::function<void(Settings&)>& derive = {});
/// Adopts the batch of a checkpoint, which no restart can change, whatever the number of workers is now. Sets
/// global_batch if it is not set, and batch_size if it has its default. Does nothing if another global_batch
/// is set. Call before MakeOptions.
void AdoptBatch(const datasets::BatchPlan& checkpoint, Settings& settings);
/// Adopts the learning rate of a checkpoint where the program has derived one: another release may derive
/// another one. Call before MakeOptions.
void AdoptRate(const std::string& checkpoint, Settings& settings);
/// Returns the options, or kInvalidArgument if settings are missing or contradict each other.
/// `configured_world`: the job's workers. If global_batch is not given, it is batch_size x accumulation_steps
/// x workers if one of these is given, else the recipe's, with a batch_size that leaves no worker idle. If only
/// global_batch is given, batch_size is its share. Also stores derived values in `settings`.
absl::StatusOr<TrainOptions> MakeOptions(int64_t configured_world, Settings& settings);

}  // namespace mtrun::trainers
