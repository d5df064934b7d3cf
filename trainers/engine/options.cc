#include "trainers/engine/options.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mtrun::engine {
namespace {

using Kind = SettingSpec::Kind;

/// Sections of other programs that may stand in the same --config file.
const std::vector<std::string> kOtherSections = {"mtrun", "cnnA", "cnnB", "vit", "diffusion", "resnet18"};

SettingSpec Text(std::string name, std::string value, std::string help,
                 std::vector<std::string> choices = {}) {
  return {.name = std::move(name),
          .default_text = std::move(value),
          .help = std::move(help),
          .choices = std::move(choices)};
}
SettingSpec Whole(std::string name, std::string value, double min, std::string help,
                  std::optional<double> max = {}) {
  return {.name = std::move(name),
          .kind = Kind::kInt,
          .default_text = std::move(value),
          .help = std::move(help),
          .min = min,
          .max = max};
}
SettingSpec Real(std::string name, std::string value, std::string help,
                 double max = std::numeric_limits<double>::max()) {
  return {.name = std::move(name),
          .kind = Kind::kDouble,
          .default_text = std::move(value),
          .help = std::move(help),
          .min = 0,
          .max = max};
}
SettingSpec Flag(std::string name, std::string value, std::string help) {
  return {.name = std::move(name),
          .kind = Kind::kBool,
          .default_text = std::move(value),
          .help = std::move(help),
          .min = {},
          .max = {}};
}

void AppendGroup(std::vector<SettingSpec>& all, const std::string& group, std::vector<SettingSpec> specs) {
  for (auto& spec : specs) {
    spec.group = group;
    all.push_back(std::move(spec));
  }
}

std::vector<SettingSpec> Specs(const std::string& program) {
  std::vector<SettingSpec> all;
  AppendGroup(all, "Run",
              {
                  Text("data", "", "packed data set to train on (made by mtdata import)"),
                  Text("model_folder", absl::StrCat("runs/", program),
                       "folder that gets settings, metrics, weights and report"),
                  Text("config", "", "YAML file with a section for this program"),
                  Text("init_from", "", "safetensors or .pth file with initial weights by PyTorch names"),
                  Whole("seed", "0", 0, "seed of weights, order of samples and augmentation"),
                  Flag("help", "", "show this text"),
              });
  AppendGroup(
      all, "Length and batch",
      {
          Whole("epochs", "10", 1, "passes over the training images"),
          Whole("max_steps", "0", 0, "stop after this many steps, 0 = no limit"),
          Whole("batch_size", "16", 1, "images a worker computes at once (micro-batch)"),
          Whole("accumulation_steps", "1", 1, "micro-batches a worker computes for one step"),
          Whole("global_batch", "", 1,
                "images of one step over all workers; default batch_size x accumulation_steps x workers"),
          Flag("shuffle", "true", "another order of the images each epoch"),
          Whole("eval_images", "0", 0, "test images evaluated after each epoch, 0 = all"),
      });
  AppendGroup(
      all, "Optimizer",
      {
          Text("optimizer", "sgd", "kind of optimizer", {"sgd", "adam", "adamw"}),
          Real("learning_rate", "0.001", "learning rate; the highest one of a schedule"),
          Real("momentum", "0", "momentum of SGD", 1),
          Flag("nesterov", "false", "Nesterov's momentum"),
          Real("weight_decay", "0", "L2 term; decoupled for adamw"),
          Flag("decay_vectors", "true", "weight decay on biases and norms too"),
          Text("schedule", "constant", "learning rate over the run", {"constant", "cosine", "one_cycle"}),
          Whole("warmup_steps", "0", 0, "steps of linear warm-up from a tenth of the learning rate"),
          Real("clip_norm", "0", "scale gradients down to this L2 norm, 0 = off"),
          Real("ema_decay", "0", "keep, evaluate and save a moving average of the weights, 0 = off",
               0.999999),
      });
  AppendGroup(
      all, "Precision and normalisation",
      {
          Text("amp", "off",
               "mixed precision: fp16 with loss scaling on a GPU; auto: fp16 on a GPU, else off",
               {"off", "bf16", "fp16", "auto"}),
          Text("precision", "float32", "type of weights and gradients", {"float32", "float64"}),
          Flag("sync_bn", "false", "batch normalisation over groups of micro-batches instead of each alone"),
          Whole("sync_bn_shards", "0", 0, "micro-batches of such a group, 0 = all of a step"),
      });
  AppendGroup(
      all, "Images",
      {
          Whole("image_size", "", 1,
                "pixels a side that the network is given; larger images are resized when it is set"),
          Flag("augment", "false", "augment training images as the settings below say"),
          Flag("flip", "true", "with augment: mirror half of the images"),
          Whole("crop_padding", "0", 0, "with augment: shift images by up to this many pixels"),
          Real("rotation", "0", "with augment: turn by up to this many degrees", 180),
          Real("translation", "0", "with augment: move by up to this part of the side", 1),
          Whole("rand_augment", "0", 0, "with augment: so many of RandAugment's operations"),
          Whole("rand_magnitude", "9", 0, "with augment: their strength", 30),
          Real("erasing", "0", "with augment: probability that 2 to 20 % of an image is erased", 1),
          Whole("preview", "0", 0,
                "write the first so many training images, augmented, to preview.png in the model_folder "
                "and end"),
      });
  AppendGroup(
      all, "Checkpoints",
      {
          Flag("resume", "true", "go on from the newest checkpoint in model_folder; false: move it aside"),
          Whole("checkpoint_steps", "0", 0, "a checkpoint every so many steps, 0 = none"),
          Real("checkpoint_seconds", "60", "a checkpoint when the last one is so old, 0 = none"),
          Whole("checkpoint_epochs", "1", 0, "a checkpoint behind every so many epochs, 0 = none"),
          Whole("keep_checkpoints", "3", 1, "the newest so many stay, and the best one"),
          Whole("drain_exit_code", "0", 0, "exit status of a run that a signal stopped, 0 = 128 + signal",
                255),
      });
  AppendGroup(
      all, "Machine",
      {
          Text("device", "auto", "where to compute: with cuda each worker of a node takes a GPU of its own",
               {"auto", "cpu", "cuda"}),
          Text("channels_last", "auto",
               "keep images and convolutions channels last; auto: where that is faster",
               {"auto", "on", "off"}),
          Flag("tf32", "true", "on a GPU: multiply float32 with 10 bits of mantissa, several times faster"),
          Flag("graph", "false", "on a GPU: record a step as a CUDA graph and replay it"),
          Text("resident", "auto",
               "keep all images on the device; auto: on a GPU where they fit into resident_share",
               {"auto", "on", "off"}),
          Real("resident_share", "0.5", "part of the GPU's free memory that images may take", 1),
          Whole("threads", "0", 0,
                "threads of this worker, 0 = OMP_NUM_THREADS or cores / workers on this node"),
          Whole("log_every", "0", 0, "steps between progress lines, 0 = by time"),
      });
  return all;
}

absl::Status CheckTogether(const TrainOptions& o) {
  if (o.optimizer.nesterov &&
      (o.optimizer.kind != OptimizerOptions::Kind::kSgd || o.optimizer.momentum == 0)) {
    return absl::InvalidArgumentError("--nesterov needs --optimizer sgd and a --momentum above 0");
  }
  if (o.schedule.kind == Schedule::Kind::kOneCycle && o.schedule.warmup_steps > 0) {
    return absl::InvalidArgumentError("--schedule one_cycle warms up by itself: leave --warmup_steps away");
  }
  if (o.float64 && (o.amp == "bf16" || o.amp == "fp16")) {
    return absl::InvalidArgumentError(
        absl::StrCat("--amp ", o.amp, " and --precision float64 exclude each other"));
  }
  if (o.graph && o.sync_shards > 0) {
    return absl::InvalidArgumentError(
        "--graph and --sync_bn exclude each other: synchronised batch normalisation talks to the other "
        "workers "
        "during the forward pass, which a recording cannot do");
  }
  return absl::OkStatus();
}

std::string Workers(int64_t workers) { return absl::StrCat(workers, workers == 1 ? " worker" : " workers"); }

/// B from b where only b is given, b from B where only B is given; b never above B.
void DeriveBatch(Settings& settings, int64_t configured_world) {
  const int64_t parts = settings.Int("accumulation_steps") * configured_world;
  if (!settings.IsSet("global_batch")) {
    settings.Derive("global_batch", absl::StrCat(settings.Int("batch_size") * parts),
                    absl::StrCat("batch_size x accumulation_steps x ", Workers(configured_world)));
    return;
  }
  const int64_t global_batch = settings.Int("global_batch");
  if (settings.SourceOf("batch_size") == SettingSource::kDefault) {
    settings.Derive("batch_size", absl::StrCat((global_batch + parts - 1) / parts),
                    absl::StrCat("global_batch / (accumulation_steps x ", Workers(configured_world), ")"));
  } else if (settings.Int("batch_size") > global_batch) {
    settings.Derive("batch_size", absl::StrCat(global_batch), "not more than global_batch");
  }
}

absl::StatusOr<TrainOptions> ToOptions(const Settings& s) {
  TrainOptions o;
  o.data = s.Text("data");
  o.model_folder = s.Text("model_folder");
  o.init_from = s.Text("init_from");
  o.epochs = s.Int("epochs");
  o.max_steps = s.Int("max_steps");
  o.plan = {.global_batch = s.Int("global_batch"), .micro_batch = s.Int("batch_size")};
  MT_ASSIGN_OR_RETURN(o.optimizer.kind, ParseOptimizerKind(s.Text("optimizer")));
  o.optimizer.momentum = s.Double("momentum");
  o.optimizer.nesterov = s.Bool("nesterov");
  o.optimizer.weight_decay = s.Double("weight_decay");
  o.optimizer.decay_vectors = s.Bool("decay_vectors");
  MT_ASSIGN_OR_RETURN(o.schedule.kind, ParseScheduleKind(s.Text("schedule")));
  o.schedule.base = s.Double("learning_rate");
  o.schedule.warmup_steps = s.Int("warmup_steps");
  o.seed = static_cast<uint64_t>(s.Int("seed"));
  o.shuffle = s.Bool("shuffle");
  o.amp = s.Text("amp");
  o.clip_norm = s.Double("clip_norm");
  o.ema_decay = s.Double("ema_decay");
  if (s.Bool("sync_bn"))
    o.sync_shards = s.Int("sync_bn_shards") > 0 ? s.Int("sync_bn_shards") : o.plan.shards();
  if (s.Bool("augment")) {
    o.augmentation = {.flip = s.Bool("flip"), .crop_padding = static_cast<int>(s.Int("crop_padding"))};
    o.warps.rotation = s.Double("rotation");
    o.warps.translation = s.Double("translation");
    o.warps.rand_augment = static_cast<int>(s.Int("rand_augment"));
    o.warps.rand_magnitude = static_cast<int>(s.Int("rand_magnitude"));
    o.warps.erasing = s.Double("erasing");
  }
  o.image_size = s.IsSet("image_size") ? static_cast<int>(s.Int("image_size")) : 0;
  o.threads = static_cast<int>(s.Int("threads"));
  o.float64 = s.Text("precision") == "float64";
  o.device = s.Text("device");
  o.channels_last = s.Text("channels_last");
  o.tf32 = s.Bool("tf32");
  o.graph = s.Bool("graph");
  o.resident = s.Text("resident");
  o.resident_share = s.Double("resident_share");
  o.eval_images = s.Int("eval_images");
  o.log_every = s.Int("log_every");
  o.preview = s.Int("preview");
  o.resume = s.Bool("resume");
  o.checkpoint_steps = s.Int("checkpoint_steps");
  o.checkpoint_seconds = s.Double("checkpoint_seconds");
  o.checkpoint_epochs = s.Int("checkpoint_epochs");
  o.keep_checkpoints = static_cast<int>(s.Int("keep_checkpoints"));
  o.drain_exit_code = static_cast<int>(s.Int("drain_exit_code"));
  return o;
}

}  // namespace

std::string Fingerprint(const TrainOptions& o) {
  return absl::StrCat(
      "epochs=", o.epochs, " max_steps=", o.max_steps, " global_batch=", o.plan.global_batch,
      " batch_size=", o.plan.micro_batch, " optimizer=", static_cast<int>(o.optimizer.kind),
      " momentum=", o.optimizer.momentum, " nesterov=", o.optimizer.nesterov,
      " weight_decay=", o.optimizer.weight_decay, " schedule=", static_cast<int>(o.schedule.kind),
      " learning_rate=", o.schedule.base, " warmup_steps=", o.schedule.warmup_steps, " seed=", o.seed,
      " shuffle=", o.shuffle, " flip=", o.augmentation.flip, " crop_padding=", o.augmentation.crop_padding,
      " image_size=", o.image_size, " float64=", o.float64, " decay_vectors=", o.optimizer.decay_vectors,
      " amp=", o.amp, " clip_norm=", o.clip_norm, " ema_decay=", o.ema_decay,
      " sync_bn_shards=", o.sync_shards, " rotation=", o.warps.rotation, " translation=", o.warps.translation,
      " rand_augment=", o.warps.rand_augment, " rand_magnitude=", o.warps.rand_magnitude,
      " erasing=", o.warps.erasing, " eval_images=", o.eval_images, " tf32=", o.tf32);
}

Settings MakeSettings(const std::string& program, const Recipe& recipe, const std::vector<SettingSpec>& more,
                      const std::vector<std::pair<std::string, std::string>>& aliases) {
  std::vector<SettingSpec> specs = Specs(program);
  specs.insert(specs.end(), more.begin(), more.end());
  const auto named = [&](const std::string& name) -> SettingSpec& {
    const auto found =
        std::find_if(specs.begin(), specs.end(), [&](const SettingSpec& spec) { return spec.name == name; });
    MT_CHECK(found != specs.end()) << program << "'s recipe names the unknown setting " << name;
    return *found;
  };
  for (const auto& [name, value] : recipe) named(name).default_text = value;
  for (const auto& [name, alias] : aliases) named(name).aliases.push_back(alias);
  return Settings(program, std::move(specs));
}

absl::StatusOr<bool> ReadSettings(const std::string& program, const std::vector<std::string>& args,
                                  const EnvironmentMap& environment, Settings& settings) {
  MT_RETURN_IF_ERROR(settings.ParseFlags(args, /*positionals_allowed=*/false));
  if (settings.IsSet("help") && settings.Bool("help")) return false;
  MT_RETURN_IF_ERROR(settings.ApplyEnvironment(environment, kEnvironmentPrefix));
  if (const std::string file = settings.Text("config"); !file.empty()) {
    MT_RETURN_IF_ERROR(ApplySettingsFile(file, program, settings));
  }
  return true;
}

absl::Status ApplySettingsFile(const std::string& path, const std::string& program, Settings& settings) {
  return settings.ApplyYaml(path, program, kOtherSections);
}

void AdoptBatch(const datasets::BatchPlan& checkpoint, Settings& settings) {
  if (settings.IsSet("global_batch")) return;
  settings.Derive("global_batch", absl::StrCat(checkpoint.global_batch), "the checkpoint in model_folder");
  if (settings.SourceOf("batch_size") == SettingSource::kDefault) {
    settings.Derive("batch_size", absl::StrCat(checkpoint.micro_batch), "the checkpoint in model_folder");
  }
}

absl::StatusOr<TrainOptions> MakeOptions(int64_t configured_world, Settings& settings) {
  if (settings.Text("data").empty()) {
    return absl::InvalidArgumentError(
        "--data is missing: give a packed data set (mtdata import SOURCE DEST makes one)");
  }
  DeriveBatch(settings, configured_world);
  MT_ASSIGN_OR_RETURN(const TrainOptions options, ToOptions(settings));
  MT_RETURN_IF_ERROR(CheckTogether(options));
  return options;
}

}  // namespace mtrun::engine
