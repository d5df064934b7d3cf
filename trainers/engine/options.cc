#include "trainers/engine/options.h"

#include <limits>

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
SettingSpec Whole(std::string name, std::string value, double min, std::string help) {
  return {.name = std::move(name),
          .kind = Kind::kInt,
          .default_text = std::move(value),
          .help = std::move(help),
          .min = min,
          .max = {}};
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
                  Text("init_from", "", "safetensors file with initial weights by PyTorch names"),
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
      });
  AppendGroup(
      all, "Optimizer",
      {
          Text("optimizer", "sgd", "kind of optimizer", {"sgd", "adam", "adamw"}),
          Real("learning_rate", "0.001", "learning rate; the highest one of a schedule"),
          Real("momentum", "0", "momentum of SGD", 1),
          Flag("nesterov", "false", "Nesterov's momentum"),
          Real("weight_decay", "0", "L2 term; decoupled for adamw"),
          Text("schedule", "constant", "learning rate over the run", {"constant", "cosine", "one_cycle"}),
          Whole("warmup_steps", "0", 0, "steps of linear warm-up from a tenth of the learning rate"),
      });
  AppendGroup(all, "Images",
              {
                  Whole("image_size", "", 1,
                        "pixels a side that the network is given; larger images are resized when it is set"),
                  Flag("augment", "false", "augment training images as the two settings below say"),
                  Flag("flip", "true", "with augment: mirror half of the images"),
                  Whole("crop_padding", "0", 0, "with augment: shift images by up to this many pixels"),
              });
  AppendGroup(all, "Machine",
              {
                  Text("device", "auto", "where to compute", {"auto", "cpu", "cuda"}),
                  Text("precision", "float32", "type of weights and gradients", {"float32", "float64"}),
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
  MT_ASSIGN_OR_RETURN(o.schedule.kind, ParseScheduleKind(s.Text("schedule")));
  o.schedule.base = s.Double("learning_rate");
  o.schedule.warmup_steps = s.Int("warmup_steps");
  o.seed = static_cast<uint64_t>(s.Int("seed"));
  o.shuffle = s.Bool("shuffle");
  if (s.Bool("augment")) {
    o.augmentation = {.flip = s.Bool("flip"), .crop_padding = static_cast<int>(s.Int("crop_padding"))};
  }
  o.image_size = s.IsSet("image_size") ? static_cast<int>(s.Int("image_size")) : 0;
  o.threads = static_cast<int>(s.Int("threads"));
  o.float64 = s.Text("precision") == "float64";
  o.device = s.Text("device");
  o.log_every = s.Int("log_every");
  return o;
}

}  // namespace

std::string Fingerprint(const TrainOptions& o) {
  return absl::StrCat("epochs=", o.epochs, " max_steps=", o.max_steps, " global_batch=", o.plan.global_batch,
                      " batch_size=", o.plan.micro_batch, " optimizer=", static_cast<int>(o.optimizer.kind),
                      " momentum=", o.optimizer.momentum, " nesterov=", o.optimizer.nesterov,
                      " weight_decay=", o.optimizer.weight_decay,
                      " schedule=", static_cast<int>(o.schedule.kind), " learning_rate=", o.schedule.base,
                      " warmup_steps=", o.schedule.warmup_steps, " seed=", o.seed, " shuffle=", o.shuffle,
                      " flip=", o.augmentation.flip, " crop_padding=", o.augmentation.crop_padding,
                      " image_size=", o.image_size, " float64=", o.float64);
}

Settings MakeSettings(const std::string& program, const Recipe& recipe) {
  std::vector<SettingSpec> specs = Specs(program);
  for (const auto& [name, value] : recipe) {
    bool known = false;
    for (auto& spec : specs) {
      if (spec.name != name) continue;
      spec.default_text = value;
      known = true;
    }
    MT_CHECK(known) << program << "'s recipe names the unknown setting " << name;
  }
  return Settings(program, std::move(specs));
}

absl::StatusOr<Parsed> ParseOptions(const std::string& program, const std::vector<std::string>& args,
                                    const EnvironmentMap& environment, int64_t configured_world,
                                    Settings& settings) {
  Parsed parsed;
  MT_RETURN_IF_ERROR(settings.ParseFlags(args, /*positionals_allowed=*/false));
  if (settings.IsSet("help") && settings.Bool("help")) {
    parsed.help = true;
    return parsed;
  }
  MT_RETURN_IF_ERROR(settings.ApplyEnvironment(environment, kEnvironmentPrefix));
  if (const std::string file = settings.Text("config"); !file.empty()) {
    MT_RETURN_IF_ERROR(settings.ApplyYaml(file, program, kOtherSections));
  }
  if (settings.Text("data").empty()) {
    return absl::InvalidArgumentError(
        "--data is missing: give a packed data set (mtdata import SOURCE DEST makes one)");
  }
  DeriveBatch(settings, configured_world);
  MT_ASSIGN_OR_RETURN(parsed.options, ToOptions(settings));
  MT_RETURN_IF_ERROR(CheckTogether(parsed.options));
  return parsed;
}

}  // namespace mtrun::engine
