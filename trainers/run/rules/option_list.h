// The options of every program, one row each: name, default, scope, help, member. Does not depend on LibTorch.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "datasets/images/image.h"
#include "trainers/run/rules/options.h"

namespace mtrun::trainers {

/// Maximum number of images of one step, and of each factor of that number.
inline constexpr int64_t kMaxImages = 1 << 30;
/// Maximum number of epochs: times the steps of an epoch it still fits into 64 bits.
inline constexpr double kMaxEpochs = 1e9;
/// Maximum size in GiB: in bytes it still fits into 64 bits.
inline constexpr double kMaxGib = 1e9;

inline void ListRunOptions(OptionTable& t) {
  using O = TrainOptions;
  using enum Scope;
  t.Group("Run");
  t.Add("data", "", kFree,
        "Packed data set to train on (see mtdata import), or the URL of one that is served: "
        "https://HOST:PORT/NAME, s3://BUCKET/NAME.",
        &O::data)
      .Takes("FOLDER|URL")
      .Common()
      .Hints({"data_path", "data_dir", "data_folder", "dataset", "root"});
  t.Add("model_folder", "runs/" + t.program(), kFree,
        "Folder for settings, metrics, weights and report. A setting's name in braces stands for its value: "
        "runs/{trainer}-{learning_rate}.",
        &O::model_folder)
      .Otherwise(absl::StrCat("runs/", t.program(), ", or runs/", t.program(), "-2 if that has another run"))
      .Takes("FOLDER")
      .Common()
      .Hints({"output_dir", "output", "out_dir", "save_dir", "checkpoint_dir"});
  t.Add("tensorboard", "true", kFree, "Write curves and pictures for TensorBoard to tb/ of the model_folder.",
        &O::tensorboard);
  t.Add("report", "true", kFree,
        "At the end, write report.html and plots to the model_folder (with mtreport).", &O::report);
  t.Add("result_file", "false", kFree,
        "With --report: also write the figures as {batch}_{epochs}_{nodes}_{gpus}.txt.", &O::result_file);
  t.Add<std::string>("config", "", kFree, "YAML file with a section for this program.")
      .Takes("FILE")
      .Common();
  t.Add("init_from", "", kFree, "File with initial weights, safetensors or .pth, named as in PyTorch.",
        &O::init_from)
      .Takes("FILE")
      .Hints({"pretrained", "initial_checkpoint", "load"});
  t.Add<std::string>("settings", "changed", kFree,
                     "Settings to print: those that differ from their defaults, or all.")
      .Choices({"changed", "all"});
  t.Add("seed", "0", kRun, "Seed of weights, order of samples and augmentation.", &O::seed);
  t.Add<bool>("check", "", kFree,
              "Check settings, data, weights and folder, print what the run will be, and exit.")
      .Common();
  t.Add<bool>("check_settings", "", kFree, "Check the settings, and exit.");
  t.Add<bool>("version", "", kFree, "Print the version.");
  t.Add<bool>("help", "", kFree, "Print this text.").Common();
}

inline void ListModeOptions(OptionTable& t) {
  using enum Scope;
  t.Group("Instead of training");
  t.Add<std::string>("evaluate", "", kFree,
                     "Evaluate a run, checkpoint or file of weights on the test images of --data.")
      .Takes("RUN|FILE");
  t.Add<std::string>("predict", "", kFree, "Classify image files, or those of a folder; more can follow.")
      .Takes("FILE|FOLDER");
  t.Add<std::string>("export", "", kFree,
                     "Folder to write weights, a model.py for PyTorch and a description to.")
      .Takes("FOLDER");
  t.Add<std::string>("weights_of", "", kFree,
                     "With --predict and --export: the run, checkpoint or file of weights.")
      .Takes("RUN|FILE")
      .Otherwise("model_folder");
  t.Add<std::string>("out", "", kFree,
                     "With --predict: the .csv, .jsonl or .html file to write; with --evaluate: a JSON file.")
      .Takes("FILE");
  t.Add<bool>("onnx", "", kFree,
              "With --export: also write model.onnx, with PyPI's onnx and PyTorch of your Python, and "
              "compare it if onnxruntime is there.");
  t.Add<int64_t>("top_k", "5", kFree, "With --predict: number of classes to list for an image.").Min(1);
}

inline void ListBatchOptions(OptionTable& t) {
  using O = TrainOptions;
  using enum Scope;
  t.Group("Length and batch");
  t.Add("epochs", "10", kGeneration, "Passes over the training images.", &O::epochs)
      .Common()
      .Min(1)
      .Max(kMaxEpochs)
      .Hints({"num_epochs", "max_epochs", "n_epochs"});
  t.Add("max_steps", "0", kGeneration, "Stop after this many steps; 0: no limit.", &O::max_steps);
  t.Add("batch_size", "16", kRun, "Images that a worker processes at once (micro-batch).", &O::plan,
        &datasets::BatchPlan::micro_batch)
      .Common()
      .Min(1)
      .Max(kMaxImages)
      .Hints({"bs", "batch", "per_device_train_batch_size"});
  t.Add<int64_t>("accumulation_steps", "1", kRun, "Micro-batches of each worker in one step.")
      .Min(1)
      .Max(kMaxImages)
      .Through("global_batch")
      .Hints({"grad_accum", "accum_iter", "gradient_accumulation_steps"});
  t.Add("global_batch", "", kRun,
        "Images in one step over all workers. With --batch_size or --accumulation_steps: their product with "
        "the number of workers.",
        &O::plan, &datasets::BatchPlan::global_batch)
      .Common()
      .Min(1)
      .Max(kMaxImages);
  t.Add("validation_share", "0", kFree,
        "Fraction of the training images of each class that is held out to choose the best epoch; 0: use the "
        "data's val split, if it has one.",
        &O::validation_share)
      .Max(0.9);
  t.Add("early_stopping_epochs", "0", kGeneration,
        "Stop after this many epochs without a better one; 0: never.", &O::early_stopping_epochs)
      .Hints({"patience"});
  t.AddParsed("shuffle", "true", kRun,
              "Shuffle the images in each epoch. streams: in an order for disks and networks, a few shards "
              "at a time for each micro-batch of a step; fixed_streams: likewise, with the same shards in "
              "every epoch, so that a node fetches its share once.",
              datasets::ParseShuffle, &O::shuffle)
      .FlagOr({"streams", "fixed_streams"});
  t.Add("shuffle_window", absl::StrCat(datasets::kStreamWindow), kRun,
        "Shards that each stream mixes at a time.", &O::shuffle_window)
      .Min(1)
      .Since(absl::StrCat(datasets::kStreamWindow));
  t.Add("eval_images", "0", kRun, "Test images to evaluate after each epoch; 0: all.", &O::eval_images);
}

inline void ListOptimizerOptions(OptionTable& t) {
  using O = TrainOptions;
  using enum Scope;
  t.Group("Optimizer");
  t.AddParsed("optimizer", "sgd", kRun, "Kind of optimizer.", ParseOptimizerKind, &O::optimizer,
              &OptimizerOptions::kind)
      .Choices(OptimizerNames())
      .Hints({"opt"});
  t.Add("learning_rate", "0.001", kRun, "Learning rate; with a schedule, its peak.", &O::schedule,
        &LrSchedule::base)
      .Common()
      .Hints({"lr", "base_lr"});
  t.Add("momentum", "0", kRun, "Momentum of SGD.", &O::optimizer, &OptimizerOptions::momentum).Max(1);
  t.Add("nesterov", "false", kRun, "Use Nesterov's momentum.", &O::optimizer, &OptimizerOptions::nesterov);
  t.Add("weight_decay", "0", kRun, "L2 term; decoupled for adamw.", &O::optimizer,
        &OptimizerOptions::weight_decay)
      .Hints({"wd"});
  t.Add("decay_vectors", "true", kRun, "Apply weight decay to biases and norms, too.", &O::optimizer,
        &OptimizerOptions::decay_vectors);
  t.AddParsed("schedule", "constant", kRun, "Schedule of the learning rate.", ParseLrScheduleKind,
              &O::schedule, &LrSchedule::kind)
      .Choices({"constant", "cosine", "one_cycle", "linear"})
      .Hints({"lr_scheduler", "scheduler", "sched"});
  t.Add("schedule_epochs", "0", kGeneration, "Length of the schedule in epochs; 0: that of the run.",
        &O::schedule_epochs)
      .Max(kMaxEpochs);
  t.Add("warmup_steps", "0", kRun, "Steps of linear warm-up from a tenth of the learning rate.", &O::schedule,
        &LrSchedule::warmup_steps);
  t.Add("warmup_epochs", "0", kRun, "Epochs of linear warm-up instead; 0: use warmup_steps.",
        &O::warmup_epochs)
      .Max(kMaxEpochs)
      .Since("0")
      .Hints({"lr_warmup_epochs"});
  t.Add("warmup_share", "1", kGeneration, "Largest fraction of the schedule that the warm-up takes.",
        &O::warmup_share)
      .Max(1);
  t.Add("clip_norm", "0", kRun, "Scale gradients down to this L2 norm; 0: off.", &O::clip_norm)
      .Hints({"max_norm", "clip_grad", "clip_grad_norm", "grad_clip"});
  t.Add("ema_decay", "0", kRun, "Keep, evaluate and save a moving average of the weights; 0: off.",
        &O::ema_decay)
      .Max(0.999999)
      .Hints({"model_ema_decay"});
  t.Add("class_weights", "none", kRun,
        "Weights of the classes in the loss; balanced: all classes count alike, whatever their numbers of "
        "training images.",
        &O::class_weights)
      .Choices({"none", "balanced"})
      .Since("none");
}

inline void ListPrecisionOptions(OptionTable& t) {
  using O = TrainOptions;
  using enum Scope;
  t.Group("Precision and normalisation");
  t.Add("amp", "off", kGeneration,
        "Mixed precision: fp16 with loss scaling on a GPU; auto: fp16 on a GPU, else off.", &O::amp)
      .Choices({"off", "bf16", "fp16", "auto"})
      .Hints({"mixed_precision"});
  const auto is_float64 = [](const std::string& type) -> absl::StatusOr<bool> { return type == "float64"; };
  t.AddParsed("precision", "float32", kRun, "Type of weights and gradients.", is_float64, &O::float64)
      .Choices({"float32", "float64"})
      .InCheckpoints("float64");
  t.Add<bool>("sync_bn", "false", kRun, "Normalise batches over groups of micro-batches instead of each one.")
      .Through("sync_bn_micro_batches");
  t.Add("sync_bn_micro_batches", "0", kRun, "Micro-batches in such a group; 0: all of a step.",
        &O::sync_micro_batches)
      .Was("sync_bn_shards");
}

inline void ListAugmentations(OptionTable& t) {
  using O = TrainOptions;
  using enum Scope;
  t.Add<bool>("augment", "false", kRun, "Augment training images as the settings below say.").Through("flip");
  t.Add("flip", "true", kRun, "With --augment: mirror half of the images.", &O::augmentation,
        &Augmentation::flip);
  t.Add("crop_padding", "0", kRun, "With --augment: shift images by up to this many pixels.",
        &O::augmentation, &Augmentation::crop_padding);
  t.Add(
       "random_resized_crop", "false", kRun,
       "With --augment: crop a random part, with an aspect ratio of 3:4 to 4:3, and resize it to image_size.",
       &O::random_resized_crop)
      .Since("0");
  t.Add("crop_min_area", "0.08", kRun, "With --random_resized_crop: smallest fraction of an image's area.",
        &O::crop, &RandomCrop::min_area)
      .Min(1e-4)
      .Max(1)
      .Since("0.08");
  t.Add("color_jitter", "0", kRun,
        "With --augment: change brightness, contrast and saturation by up to this factor either way.",
        &O::reading, &Reading::jitter, &ColourJitter::colours)
      .Since("0");
  t.Add("hue_jitter", "0", kRun, "With --augment: rotate the hue by up to this fraction of a circle.",
        &O::reading, &Reading::jitter, &ColourJitter::hue)
      .Max(0.5)
      .Since("0");
  t.Add("rotation", "0", kRun, "With --augment: rotate by up to this angle.", &O::warps,
        &ImageAugmentation::rotation)
      .Takes("DEGREES")
      .Max(180);
  t.Add("translation", "0", kRun, "With --augment: shift by up to this fraction of the side.", &O::warps,
        &ImageAugmentation::translation)
      .Max(1);
  t.Add("rand_augment", "0", kRun, "With --augment: number of RandAugment operations.", &O::warps,
        &ImageAugmentation::rand_augment);
  t.Add("rand_magnitude", "9", kRun, "With --augment: strength of RandAugment operations.", &O::warps,
        &ImageAugmentation::rand_magnitude)
      .Max(30);
  t.Add("erasing", "0", kRun, "With --augment: probability that 2 to 20 % of an image is erased.", &O::warps,
        &ImageAugmentation::erasing)
      .Max(1);
  t.Add("mixup", "0", kRun,
        "With --augment: mix images of a micro-batch in pairs, and their labels; the share of each is drawn "
        "from "
        "Beta(a, a).",
        &O::mixing, &Mixing::mixup)
      .Takes("A")
      .Max(kMaxBeta)
      .Since("0")
      .Hints({"mixup_alpha"});
  t.Add("cutmix", "0", kRun,
        "With --augment: likewise, by a rectangle of the other image; with --mixup each micro-batch takes "
        "one.",
        &O::mixing, &Mixing::cutmix)
      .Takes("A")
      .Max(kMaxBeta)
      .Since("0")
      .Hints({"cutmix_alpha"});
}

inline void ListImageOptions(OptionTable& t) {
  using O = TrainOptions;
  using enum Scope;
  t.Group("Images");
  t.Add("image_size", "", kRun, "Side of the network's input in pixels; if set, larger images are resized.",
        &O::image_size)
      .Min(1)
      .Max(datasets::kMaxImageSide)
      .Hints({"imgsz", "img_size", "train_crop_size"});
  t.Add("image_size_from", "0", kRun,
        "Side of training images in the first epochs in pixels, which grows to image_size; 0: no growth.",
        &O::reading, &Reading::growth, &ImageGrowth::from)
      .Max(datasets::kMaxImageSide)
      .Since("0");
  t.Add("grow_after", "0", kRun, "Epochs with the first size.", &O::reading, &Reading::growth,
        &ImageGrowth::first)
      .Since("0");
  t.Add("grown_after", "0", kRun, "Epochs before the last size is reached.", &O::reading, &Reading::growth,
        &ImageGrowth::end)
      .Since("0");
  t.Add("eval_image_size", "0", kRun, "Side of test images in pixels; 0: image_size.", &O::eval_image_size)
      .Max(datasets::kMaxImageSide)
      .Since("0")
      .Hints({"val_crop_size"});
  t.Add("eval_part", "1", kRun,
        "Cut encoded test images to a square of this fraction of their shorter side; 0.875 is 224 of 256.",
        &O::eval_part)
      .Min(0.01)
      .Max(1)
      .Since("1");
  t.AddParsed(
       "decode", "auto", kRun,
       "Decoding of JPEG training images. fast skips parts that are cut away and detail that the result "
       "cannot show; exact is within 1 level of Pillow; auto: fast if part, size or colour differ each time.",
       ParseDecodeChoice, &O::decode)
      .Choices({"auto", "exact", "fast"})
      .Since("0");
  ListAugmentations(t);
  t.Add("preview", "0", kFree,
        "Write this many training images, augmented, to preview.png in the model_folder, and exit.",
        &O::preview);
}

inline void ListCheckpointOptions(OptionTable& t) {
  using O = TrainOptions;
  using enum Scope;
  t.Group("Checkpoints");
  // Members that look for a checkpoint make other collective calls than those that do not.
  t.Add("resume", "true", kGeneration,
        "Continue from the newest checkpoint in model_folder; false: start over.", &O::resume)
      .Common();
  t.Add("random_streams", "same", kFree,
        "new: also continue from a checkpoint whose random numbers were drawn in another way, by an earlier "
        "release.",
        &O::random_streams)
      .Choices({"same", "new"});
  t.Add("checkpoint_steps", "0", kFree, "Save after every N steps; 0: never.", &O::checkpoint_steps);
  t.Add("checkpoint_seconds", "60", kFree, "Save when the last checkpoint is this old; 0: never.",
        &O::checkpoint_seconds)
      .Takes("SECONDS")
      .Max(1e9);
  t.Add("checkpoint_epochs", "1", kFree, "Save after every N epochs; 0: never.", &O::checkpoint_epochs);
  t.Add("keep_checkpoints", "3", kFree, "Number of newest checkpoints to keep, besides the best one.",
        &O::keep_checkpoints)
      .Min(1);
  t.Add("drain_exit_code", "0", kFree,
        "Exit status of a run that a signal stopped, not 2 or 3; 0: 128 + signal.", &O::drain_exit_code)
      .Max(255);
}

inline void ListMachineOptions(OptionTable& t) {
  using O = TrainOptions;
  using enum Scope;
  t.Group("Machine");
  t.Add("device", "auto", kGeneration,
        "Device to compute on; with cuda each worker of a node uses a GPU of its own.", &O::device)
      .Common()
      .Choices({"auto", "cpu", "cuda"})
      .Same({{"gpu", "cuda"}});
  t.Add("channels_last", "auto", kGeneration,
        "Keep images and convolutions channels last; auto: if that is faster.", &O::channels_last)
      .Choices({"auto", "on", "off"});
  t.Add("same_kind", "warn", kGeneration,
        "If the workers' processors, GPUs or LibTorch are of several kinds, or of another kind than the "
        "run's so "
        "far, its last bits can differ: warn about it, or refuse to train.",
        &O::same_kind)
      .Choices({"warn", "require"});
  t.Add("encrypt_gradients", "false", kGeneration,
        "On CPUs: encrypt the data between workers on different hosts; it is authenticated in any case.",
        &O::encrypt_gradients);
  t.Add("tf32", "true", kRun, "On a GPU: multiply float32 with a mantissa of 10 bits, several times faster.",
        &O::tf32);
  // A captured update has its learning rate in float32, on the device, which gives other bits.
  t.Add("graph", "false", kGeneration, "On a GPU: capture a step as a CUDA graph and replay it.", &O::graph);
  t.Add("resident", "auto", kFree,
        "Keep all images on the device; auto: on a GPU if they fit into resident_share.", &O::resident)
      .Choices({"auto", "on", "off"});
  t.Add("resident_share", "0.5", kFree, "Fraction of the GPU's free memory that images may use.",
        &O::resident_share)
      .Max(1);
  t.Add("threads", "0", kFree,
        "Threads of this worker; 0: OMP_NUM_THREADS, else processors / workers on this node.", &O::threads);
  t.Add("read_threads", "0", kFree, "Threads that decode training images; 0: same as threads.",
        &O::read_threads)
      .Hints({"workers", "num_workers", "j"});
  t.Add("read_ahead", "4", kFree, "Micro-batches to read ahead, within read_ahead_mib.", &O::read_ahead);
  t.Add("read_ahead_mib", "512", kFree, "Memory for micro-batches that are read ahead; at least one is.",
        &O::read_ahead_mib)
      .Takes("MIB")
      .Max(1 << 20);
  t.Add("log_every", "0", kFree, "Steps between progress lines; 0: by time.", &O::log_every);
}

inline void ListRemoteOptions(OptionTable& t) {
  using O = TrainOptions;
  using R = datasets::RemoteOptions;
  using enum Scope;
  t.Group("Data from a server");
  t.Add("cache", "", kFree, "Folder of the cache, shared by all workers of a node.", &O::remote, &R::cache)
      .Takes("FOLDER")
      .Otherwise("~/.cache/mtrun/data");
  t.Add("cache_gib", "0", kFree,
        "Size limit of the cache; the least recently used data is evicted. 0: as much as the disk holds.",
        &O::remote, &R::cache_gib)
      .Takes("GIB")
      .Max(kMaxGib);
  t.Add("fetch_ahead_gib", "4", kFree,
        "Data that a node fetches before its steps need it (--shuffle streams); 0: all.", &O::remote,
        &R::fetch_ahead_gib)
      .Takes("GIB")
      .Max(kMaxGib);
  t.Add("data_bearer_file", "", kFree, "File with the bearer token for a third-party server.", &O::remote,
        &R::bearer_file)
      .Takes("FILE");
  t.Add("data_redirects", "false", kFree, "Follow redirects to other hosts, without sending them any token.",
        &O::remote, &R::redirects);
}

inline void ListOptions(OptionTable& t) {
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
