// The options of every program, one row each: name, default, who must agree, help, member. `Table` is an
// OptionTable; as templates they are compiled where they are used, in options.cc. Free of LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "datasets/images/image.h"
#include "trainers/run/options.h"

namespace mtrun::trainers {

/// Of one step, and of all that makes it up.
inline constexpr int64_t kMostImages = 1 << 30;
/// Times the steps of an epoch it still is a number of steps.
inline constexpr double kMostEpochs = 1e9;
/// In bytes it still is a number of 64 bits.
inline constexpr double kMostGib = 1e9;

/// "float64": true.
absl::StatusOr<bool> ParseFloat64(std::string_view precision);

template <typename Table>
void ListRunOptions(Table& t) {
  using O = TrainOptions;
  using enum Scope;
  t.Group("Run");
  t.Add(
      "data", "", kFree,
      "packed data set to train on (made by mtdata import), or where one is served: https://HOST:PORT/NAME, "
      "s3://BUCKET/NAME",
      &O::data);
  t.Add("model_folder", "runs/" + t.program(), kFree,
        "folder that gets settings, metrics, weights and report", &O::model_folder);
  t.Add("tensorboard", "true", kFree,
        "write curves and pictures for TensorBoard into tb/ of the model_folder", &O::tensorboard);
  t.Add("report", "true", kFree,
        "at the end: report.html and plots in the model_folder (mtreport makes them)", &O::report);
  t.template Add<std::string>("config", "", kFree, "YAML file with a section for this program");
  t.Add("init_from", "", kFree, "safetensors or .pth file with initial weights by PyTorch names",
        &O::init_from);
  t.template Add<std::string>("settings", "changed", kFree,
                              "which settings are shown: those that differ from their defaults, or all")
      .Choices({"changed", "all"});
  t.Add("seed", "0", kRun, "seed of weights, order of samples and augmentation", &O::seed);
  t.template Add<bool>("check", "", kFree, "look for what is wrong with settings, data and folder, and end");
  t.template Add<bool>("check_settings", "", kFree, "look for what is wrong with the settings, and end");
  t.template Add<bool>("version", "", kFree, "show the version");
  t.template Add<bool>("help", "", kFree, "show this text");
}

template <typename Table>
void ListModeOptions(Table& t) {
  using enum Scope;
  t.Group("Instead of training");
  t.template Add<std::string>("evaluate", "", kFree,
                              "evaluate a run, checkpoint or file of weights on the test images of --data");
  t.template Add<std::string>("predict", "", kFree,
                              "classify image files, or those of a folder; more files may follow");
  t.template Add<std::string>("export", "", kFree,
                              "folder that gets weights, a model.py for PyTorch, and a description");
  t.template Add<std::string>(
      "weights_of", "", kFree,
      "with predict and export: the run, checkpoint or file of weights; default: model_folder");
  t.template Add<std::string>("out", "", kFree,
                              "with predict: the .csv or .jsonl file to write; with evaluate: a JSON file");
  t.template Add<int64_t>("top_k", "5", kFree, "with predict: how many classes are named for an image")
      .Min(1);
}

template <typename Table>
void ListBatchOptions(Table& t) {
  using O = TrainOptions;
  using enum Scope;
  t.Group("Length and batch");
  t.Add("epochs", "10", kGeneration, "passes over the training images", &O::epochs).Min(1).Max(kMostEpochs);
  t.Add("max_steps", "0", kGeneration, "stop after this many steps, 0 = no limit", &O::max_steps);
  t.Add("batch_size", "16", kRun, "images a worker computes at once (micro-batch)", &O::plan,
        &datasets::BatchPlan::micro_batch)
      .Min(1)
      .Max(kMostImages);
  t.template Add<int64_t>("accumulation_steps", "1", kRun, "micro-batches a worker computes for one step")
      .Min(1)
      .Max(kMostImages)
      .Through("global_batch");
  t.Add("global_batch", "", kRun,
        "images of one step over all workers; default batch_size x accumulation_steps x workers", &O::plan,
        &datasets::BatchPlan::global_batch)
      .Min(1)
      .Max(kMostImages);
  t.Add("validation_share", "0", kFree,
        "part of the training images, of each class, that is kept back to choose the best epoch by; 0 = the "
        "data's own val split, where it has one",
        &O::validation_share)
      .Max(0.9);
  t.Add("early_stopping_epochs", "0", kGeneration, "end after so many epochs without a better one, 0 = never",
        &O::early_stopping_epochs);
  t.AddParsed(
       "shuffle", "true", kRun,
       "another order of the images each epoch; streams: one for disks and networks, a few shards at a "
       "time for each micro-batch of a step; fixed_streams: of the same shards in every epoch, so that a "
       "node fetches its share once",
       datasets::ParseShuffle, &O::shuffle)
      .FlagOr({"streams", "fixed_streams"});
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
        &O::schedule_epochs)
      .Max(kMostEpochs);
  t.Add("warmup_steps", "0", kRun, "steps of linear warm-up from a tenth of the learning rate", &O::schedule,
        &LrSchedule::warmup_steps);
  t.Add("warmup_epochs", "0", kRun, "epochs of it instead, 0 = warmup_steps", &O::warmup_epochs)
      .Max(kMostEpochs)
      .Since("0");
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
      .Min(1)
      .Max(datasets::kMaxImageSide);
  t.Add("image_size_from", "0", kRun,
        "pixels a side of the first epochs' training images, which grow to image_size; 0 = no growth",
        &O::reading, &Reading::growth, &ImageGrowth::from)
      .Max(datasets::kMaxImageSide)
      .Since("0");
  t.Add("grow_after", "0", kRun, "epochs of that first size", &O::reading, &Reading::growth,
        &ImageGrowth::first)
      .Since("0");
  t.Add("grown_after", "0", kRun, "epochs before those of the last size", &O::reading, &Reading::growth,
        &ImageGrowth::end)
      .Since("0");
  t.Add("eval_image_size", "0", kRun, "pixels a side of test images, 0 = image_size", &O::eval_image_size)
      .Max(datasets::kMaxImageSide)
      .Since("0");
  t.Add("eval_part", "1", kRun,
        "cut encoded test images to a square of this part of their shorter side, as 224 of 256: 0.875",
        &O::eval_part)
      .Min(0.01)
      .Max(1)
      .Since("1");
  t.AddParsed(
       "decode", "auto", kRun,
       "of JPEG training images: fast skips what is cut away and what the result cannot show; exact is "
       "within 1 level of Pillow; auto: fast where images are another part, size or colour each time",
       ParseDecodeChoice, &O::decode)
      .Choices({"auto", "exact", "fast"})
      .Since("0");
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
  // Who looks for a checkpoint makes other collective calls than who does not.
  t.Add("resume", "true", kGeneration,
        "continue from the newest checkpoint in model_folder; false: start over", &O::resume);
  t.Add("random_streams", "same", kFree,
        "new: continue also from a checkpoint whose random numbers were drawn in another way, by an earlier "
        "release",
        &O::random_streams)
      .Choices({"same", "new"});
  t.Add("checkpoint_steps", "0", kFree, "save every so many steps, 0 = never", &O::checkpoint_steps);
  t.Add("checkpoint_seconds", "60", kFree, "save when the last checkpoint is so old, 0 = never",
        &O::checkpoint_seconds)
      .Max(1e9);
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
  // A captured update has its learning rate in float32, on the device: other bits.
  t.Add("graph", "false", kGeneration, "on a GPU: capture a step as a CUDA graph and replay it", &O::graph);
  t.Add("resident", "auto", kFree,
        "keep all images on the device; auto: on a GPU where they fit into resident_share", &O::resident)
      .Choices({"auto", "on", "off"});
  t.Add("resident_share", "0.5", kFree, "part of the GPU's free memory that images may take",
        &O::resident_share)
      .Max(1);
  t.Add("threads", "0", kFree, "threads of this worker, 0 = OMP_NUM_THREADS or cores / workers on this node",
        &O::threads);
  t.Add("read_threads", "0", kFree, "threads that decode training images, 0 = as threads", &O::read_threads);
  t.Add("read_ahead", "4", kFree, "micro-batches that they read ahead ...", &O::read_ahead);
  t.Add("read_ahead_mib", "512", kFree, "... in at most so much memory, one in any case", &O::read_ahead_mib)
      .Max(1 << 20);
  t.Add("log_every", "0", kFree, "steps between progress lines, 0 = by time", &O::log_every);
}

template <typename Table>
void ListRemoteOptions(Table& t) {
  using O = TrainOptions;
  using R = datasets::RemoteOptions;
  using enum Scope;
  t.Group("Data from a server");
  t.Add("cache", "", kFree, "folder that all workers of a node share; default ~/.cache/mtrun/data",
        &O::remote, &R::cache);
  t.Add("cache_gib", "0", kFree,
        "what the whole cache may hold, the longest unused goes; 0 = as much as the disk", &O::remote,
        &R::cache_gib)
      .Max(kMostGib);
  t.Add("fetch_ahead_gib", "4", kFree,
        "what a node fetches before its steps need it (--shuffle streams); 0 = all", &O::remote,
        &R::fetch_ahead_gib)
      .Max(kMostGib);
  t.Add("data_bearer_file", "", kFree, "file with the token that a server of others wants to be shown",
        &O::remote, &R::bearer_file);
  t.Add("data_redirects", "false", kFree, "follow redirects to other hosts, without showing them any token",
        &O::remote, &R::redirects);
}

template <typename Table>
void ListOptions(Table& t) {
  ListRunOptions(t);
  ListModeOptions(t);
  ListBatchOptions(t);
  ListOptimizerOptions(t);
  ListPrecisionOptions(t);
  ListImageOptions(t);
  ListCheckpointOptions(t);
  ListMachineOptions(t);
  ListRemoteOptions(t);
}

}  // namespace mtrun::trainers
