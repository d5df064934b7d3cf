// The settings of a training program: flag > environment (MT_<NAME>) > --config file (section = program) >
// the program's own recipe. Everything that a run depends on is in TrainOptions. An option is a member there
// and a row in ListOptions. Free of LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/settings.h"
#include "base/worker_env.h"
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
  Reading reading;                   // but for `crop`, which source() fills in; jitter is augmentation too
  int image_size = 0;                // 0 = what the program takes
  int eval_image_size = 0;           // of test images, 0 = image_size
  double eval_part = 1;              // of the shorter side of encoded test images, that is shown
  int read_threads = 0;              // that decode training images, 0 = as threads
  int read_ahead = 4;                // micro-batches
  int threads = 0;                   // 0 = cores / workers on this node
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
  int drain_exit_code = 0;  // of a run that a signal stopped, 0 = 128 + the signal

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
    return now;
  }
};

/// "float64": true.
absl::StatusOr<bool> ParseFloat64(std::string_view precision);

// The options of every program, one row each: name, default, who must agree, help, member. `Table` is an
// OptionTable; as templates they are compiled where they are used, in options.cc.

template <typename Table>
void ListRunOptions(Table& t) {
  using O = TrainOptions;
  using enum Scope;
  t.Group("Run");
  t.Add("data", "", kFree, "packed data set to train on (made by mtdata import)", &O::data);
  t.Add("model_folder", "runs/" + t.program(), kFree,
        "folder that gets settings, metrics, weights and report", &O::model_folder);
  t.template Add<std::string>("config", "", kFree, "YAML file with a section for this program");
  t.Add("init_from", "", kFree, "safetensors or .pth file with initial weights by PyTorch names",
        &O::init_from);
  t.Add("seed", "0", kRun, "seed of weights, order of samples and augmentation", &O::seed);
  t.template Add<bool>("help", "", kFree, "show this text");
}

template <typename Table>
void ListBatchOptions(Table& t) {
  using O = TrainOptions;
  using enum Scope;
  t.Group("Length and batch");
  t.Add("epochs", "10", kGeneration, "passes over the training images", &O::epochs).Min(1);
  t.Add("max_steps", "0", kGeneration, "stop after this many steps, 0 = no limit", &O::max_steps);
  t.Add("batch_size", "16", kRun, "images a worker computes at once (micro-batch)", &O::plan,
        &datasets::BatchPlan::micro_batch)
      .Min(1);
  t.template Add<int64_t>("accumulation_steps", "1", kRun, "micro-batches a worker computes for one step")
      .Min(1)
      .Through("global_batch");
  t.Add("global_batch", "", kRun,
        "images of one step over all workers; default batch_size x accumulation_steps x workers", &O::plan,
        &datasets::BatchPlan::global_batch)
      .Min(1);
  t.AddParsed(
       "shuffle", "true", kRun,
       "another order of the images each epoch; streams: one for disks and networks, a few shards at a "
       "time for each micro-batch of a step",
       datasets::ParseShuffle, &O::shuffle)
      .FlagOr({"streams"});
  t.Add("shuffle_window", absl::StrCat(datasets::kStreamWindow), kRun,
        "shards that each of the streams mixes at a time", &O::shuffle_window)
      .Min(1)
      .Since(absl::StrCat(datasets::kStreamWindow));
  t.Add("eval_images", "0", kRun, "test images evaluated after each epoch, 0 = all", &O::eval_images);
}

template <typename Table>
void ListOptimizerOptions(Table& t) {
  using O = TrainOptions;
  using enum Scope;
  t.Group("Optimizer");
  t.AddParsed("optimizer", "sgd", kRun, "kind of optimizer", ParseOptimizerKind, &O::optimizer,
              &OptimizerOptions::kind)
      .Choices(OptimizerNames());
  t.Add("learning_rate", "0.001", kRun, "learning rate; the highest one of a schedule", &O::schedule,
        &LrSchedule::base);
  t.Add("momentum", "0", kRun, "momentum of SGD", &O::optimizer, &OptimizerOptions::momentum).Max(1);
  t.Add("nesterov", "false", kRun, "Nesterov's momentum", &O::optimizer, &OptimizerOptions::nesterov);
  t.Add("weight_decay", "0", kRun, "L2 term; decoupled for adamw", &O::optimizer,
        &OptimizerOptions::weight_decay);
  t.Add("decay_vectors", "true", kRun, "weight decay on biases and norms too", &O::optimizer,
        &OptimizerOptions::decay_vectors);
  t.AddParsed("schedule", "constant", kRun, "learning rate over the run", ParseLrScheduleKind, &O::schedule,
              &LrSchedule::kind)
      .Choices({"constant", "cosine", "one_cycle", "linear"});
  t.Add("schedule_epochs", "0", kGeneration, "epochs that the schedule is made for, 0 = those of the run",
        &O::schedule_epochs);
  t.Add("warmup_steps", "0", kRun, "steps of linear warm-up from a tenth of the learning rate", &O::schedule,
        &LrSchedule::warmup_steps);
  t.Add("warmup_epochs", "0", kRun, "epochs of it instead, 0 = warmup_steps", &O::warmup_epochs).Since("0");
  t.Add("clip_norm", "0", kRun, "scale gradients down to this L2 norm, 0 = off", &O::clip_norm);
  t.Add("ema_decay", "0", kRun, "keep, evaluate and save a moving average of the weights, 0 = off",
        &O::ema_decay)
      .Max(0.999999);
}

template <typename Table>
void ListPrecisionOptions(Table& t) {
  using O = TrainOptions;
  using enum Scope;
  t.Group("Precision and normalisation");
  t.Add("amp", "off", kGeneration,
        "mixed precision: fp16 with loss scaling on a GPU; auto: fp16 on a GPU, else off", &O::amp)
      .Choices({"off", "bf16", "fp16", "auto"});
  t.AddParsed("precision", "float32", kRun, "type of weights and gradients", ParseFloat64, &O::float64)
      .Choices({"float32", "float64"})
      .InCheckpoints("float64");
  t.template Add<bool>("sync_bn", "false", kRun,
                       "batch normalisation over groups of micro-batches instead of each alone")
      .Through("sync_bn_micro_batches");
  t.Add("sync_bn_micro_batches", "0", kRun, "micro-batches of such a group, 0 = all of a step",
        &O::sync_micro_batches)
      .Was("sync_bn_shards");
}

template <typename Table>
void ListAugmentations(Table& t) {
  using O = TrainOptions;
  using enum Scope;
  t.template Add<bool>("augment", "false", kRun, "augment training images as the settings below say")
      .Through("flip");
  t.Add("flip", "true", kRun, "with augment: mirror half of the images", &O::augmentation,
        &Augmentation::flip);
  t.Add("crop_padding", "0", kRun, "with augment: shift images by up to this many pixels", &O::augmentation,
        &Augmentation::crop_padding);
  t.Add("random_resized_crop", "false", kRun,
        "with augment: show a random part of each image, of 3:4 to 4:3, at image_size",
        &O::random_resized_crop)
      .Since("0");
  t.Add("crop_min_area", "0.08", kRun, "of random_resized_crop: least part of an image's area", &O::crop,
        &RandomCrop::min_area)
      .Min(1e-4)
      .Max(1)
      .Since("0.08");
  t.Add("color_jitter", "0", kRun,
        "with augment: change brightness, contrast and saturation by up to this factor either way",
        &O::reading, &Reading::jitter, &ColourJitter::colours)
      .Since("0");
  t.Add("hue_jitter", "0", kRun, "with augment: turn the hue by up to this part of a circle", &O::reading,
        &Reading::jitter, &ColourJitter::hue)
      .Max(0.5)
      .Since("0");
  t.Add("rotation", "0", kRun, "with augment: turn by up to this many degrees", &O::warps,
        &ImageAugmentation::rotation)
      .Max(180);
  t.Add("translation", "0", kRun, "with augment: move by up to this part of the side", &O::warps,
        &ImageAugmentation::translation)
      .Max(1);
  t.Add("rand_augment", "0", kRun, "with augment: so many of RandAugment's operations", &O::warps,
        &ImageAugmentation::rand_augment);
  t.Add("rand_magnitude", "9", kRun, "with augment: their strength", &O::warps,
        &ImageAugmentation::rand_magnitude)
      .Max(30);
  t.Add("erasing", "0", kRun, "with augment: probability that 2 to 20 % of an image is erased", &O::warps,
        &ImageAugmentation::erasing)
      .Max(1);
}

template <typename Table>
void ListImageOptions(Table& t) {
  using O = TrainOptions;
  using enum Scope;
  t.Group("Images");
  t.Add("image_size", "", kRun,
        "pixels a side that the network is given; larger images are resized when it is set", &O::image_size)
      .Min(1);
  t.Add("image_size_from", "0", kRun,
        "pixels a side of the first epochs' training images, which grow to image_size; 0 = no growth",
        &O::reading, &Reading::growth, &ImageGrowth::from)
      .Since("0");
  t.Add("grow_after", "0", kRun, "epochs of that first size", &O::reading, &Reading::growth,
        &ImageGrowth::first)
      .Since("0");
  t.Add("grown_after", "0", kRun, "epochs before those of the last size", &O::reading, &Reading::growth,
        &ImageGrowth::end)
      .Since("0");
  t.Add("eval_image_size", "0", kRun, "pixels a side of test images, 0 = image_size", &O::eval_image_size)
      .Since("0");
  t.Add("eval_part", "1", kRun,
        "cut encoded test images to a square of this part of their shorter side, as 224 of 256: 0.875",
        &O::eval_part)
      .Min(0.01)
      .Max(1)
      .Since("1");
  t.AddParsed(
       "decode", "fast", kRun,
       "of JPEG training images: fast skips what is cut away and what the result cannot show; exact is "
       "within 1 level of Pillow",
       ParseDecodeMode, &O::reading, &Reading::decode)
      .Choices({"fast", "exact"})
      .Since("1");
  ListAugmentations(t);
  t.Add("preview", "0", kFree,
        "write the first so many training images, augmented, to preview.png in the model_folder and end",
        &O::preview);
}

template <typename Table>
void ListCheckpointOptions(Table& t) {
  using O = TrainOptions;
  using enum Scope;
  t.Group("Checkpoints");
  t.Add("resume", "true", kFree, "continue from the newest checkpoint in model_folder; false: start over",
        &O::resume);
  t.Add("random_streams", "same", kFree,
        "new: continue also from a checkpoint whose random numbers were drawn in another way, by an earlier "
        "release",
        &O::random_streams)
      .Choices({"same", "new"});
  t.Add("checkpoint_steps", "0", kFree, "save every so many steps, 0 = never", &O::checkpoint_steps);
  t.Add("checkpoint_seconds", "60", kFree, "save when the last checkpoint is so old, 0 = never",
        &O::checkpoint_seconds);
  t.Add("checkpoint_epochs", "1", kFree, "save every so many epochs, 0 = never", &O::checkpoint_epochs);
  t.Add("keep_checkpoints", "3", kFree, "the newest so many stay, and the best one", &O::keep_checkpoints)
      .Min(1);
  t.Add("drain_exit_code", "0", kFree, "exit status of a run that a signal stopped, 0 = 128 + signal",
        &O::drain_exit_code)
      .Max(255);
}

template <typename Table>
void ListMachineOptions(Table& t) {
  using O = TrainOptions;
  using enum Scope;
  t.Group("Machine");
  t.Add("device", "auto", kGeneration,
        "where to compute: with cuda each worker of a node takes a GPU of its own", &O::device)
      .Choices({"auto", "cpu", "cuda"});
  t.Add("channels_last", "auto", kGeneration,
        "keep images and convolutions channels last; auto: where that is faster", &O::channels_last)
      .Choices({"auto", "on", "off"});
  t.Add("encrypt_gradients", "false", kGeneration,
        "on CPUs: encrypt what workers of different hosts send each other; it carries a tag in any case",
        &O::encrypt_gradients);
  t.Add("tf32", "true", kRun, "on a GPU: multiply float32 with 10 bits of mantissa, several times faster",
        &O::tf32);
  t.Add("graph", "false", kFree, "on a GPU: capture a step as a CUDA graph and replay it", &O::graph);
  t.Add("resident", "auto", kFree,
        "keep all images on the device; auto: on a GPU where they fit into resident_share", &O::resident)
      .Choices({"auto", "on", "off"});
  t.Add("resident_share", "0.5", kFree, "part of the GPU's free memory that images may take",
        &O::resident_share)
      .Max(1);
  t.Add("threads", "0", kFree, "threads of this worker, 0 = OMP_NUM_THREADS or cores / workers on this node",
        &O::threads);
  t.Add("read_threads", "0", kFree, "threads that decode training images, 0 = as threads", &O::read_threads);
  t.Add("read_ahead", "4", kFree, "micro-batches that they read ahead", &O::read_ahead);
  t.Add("log_every", "0", kFree, "steps between progress lines, 0 = by time", &O::log_every);
}

template <typename Table>
void ListOptions(Table& t) {
  ListRunOptions(t);
  ListBatchOptions(t);
  ListOptimizerOptions(t);
  ListPrecisionOptions(t);
  ListImageOptions(t);
  ListCheckpointOptions(t);
  ListMachineOptions(t);
}

/// A program's own values for settings: {"learning_rate", "0.001"}.
using Recipe = std::vector<std::pair<std::string, std::string>>;

/// All options of a program: the rows of ListOptions, then its `own`.
std::vector<Option> AllOptions(const std::string& program, const std::vector<Option>& own = {});

/// The table of settings with the recipe as defaults, and the program's own ones at its end. `aliases`: other
/// names of settings, {"model_folder", "checkpoint"}.
Settings MakeSettings(const std::string& program, const Recipe& recipe, const std::vector<Option>& own = {},
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

}  // namespace mtrun::trainers
