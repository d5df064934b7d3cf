#include "trainers/run/rules/options.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/counted.h"
#include "base/status_macros.h"
#include "trainers/run/rules/option_list.h"

namespace mtrun::trainers {
namespace {

absl::Status CheckTogether(const TrainOptions& o) {
  const bool one_cycle = o.schedule.kind == LrSchedule::Kind::kOneCycle;
  const ImageGrowth& growth = o.reading.growth;
  const auto too_small = [](double a) { return a > 0 && a < kMinBeta; };
  const auto beta = [](const char* name, double a) {
    return absl::StrCat("--", name, " ", a, ": give 0, or ", kMinBeta, " to ", kMaxBeta);
  };
  struct Rule {
    bool broken;
    std::string why;
  };
  const Rule rules[] = {
      {o.optimizer.nesterov &&
           (o.optimizer.kind != OptimizerOptions::Kind::kSgd || o.optimizer.momentum == 0),
       "--nesterov needs --optimizer sgd and a --momentum above 0"},
      {one_cycle && o.schedule.warmup_steps > 0,
       "--schedule one_cycle has its own warm-up: do not give --warmup_steps"},
      {one_cycle && o.warmup_epochs > 0,
       "--schedule one_cycle has its own warm-up: do not give --warmup_epochs"},
      {growth.from > 0 && growth.end == 0,
       "--image_size_from needs --grown_after, the number of epochs that it lasts"},
      {growth.from > 0 && growth.end < growth.first,
       absl::StrCat("--grown_after ", growth.end, " is before --grow_after ", growth.first)},
      {o.graph && growth.from > 0,
       "--graph and --image_size_from exclude each other: a captured step takes images of one size"},
      {too_small(o.mixing.mixup), beta("mixup", o.mixing.mixup)},
      {too_small(o.mixing.cutmix), beta("cutmix", o.mixing.cutmix)},
      {o.mixing.any() && o.sync_micro_batches > 0,
       "--sync_bn excludes --mixup and --cutmix: it computes several micro-batches at once, and each is "
       "mixed in another way"},
      {o.float64 && (o.amp == "bf16" || o.amp == "fp16"),
       absl::StrCat("--amp ", o.amp, " and --precision float64 exclude each other")},
      {o.drain_exit_code == kWrongSettingsStatus || o.drain_exit_code == kDifferentStatesStatus,
       absl::StrCat("--drain_exit_code ", o.drain_exit_code, " has another meaning to mtrun (",
                    kWrongSettingsStatus, ": wrong settings, ", kDifferentStatesStatus,
                    ": different states of one step): give another status")},
      {o.graph && o.sync_micro_batches > 0,
       "--graph and --sync_bn exclude each other: synchronised batch normalisation talks to the other "
       "workers during the forward pass, which a captured step cannot do"},
  };
  for (const Rule& rule : rules) {
    if (rule.broken) return absl::InvalidArgumentError(rule.why);
  }
  return absl::OkStatus();
}

/// Returns a x b of numbers from 1, or kMaxImages + 1 if it is larger: the product may not fit 64 bits.
int64_t Images(int64_t a, int64_t b) { return a > kMaxImages / b ? kMaxImages + 1 : a * b; }

bool IsGiven(const Settings& settings, const char* name) {
  return settings.SourceOf(name) != SettingSource::kDefault;
}

/// Returns whether B is given, or adopted from a checkpoint; a recipe's B is neither.
bool IsGlobalBatchFixed(const Settings& settings) {
  return IsGiven(settings, "global_batch") || settings.IsDerived("global_batch");
}

/// Takes B of the recipe, so that a run is the same with any number of workers. b is the recipe's, or smaller
/// if workers would stay idle.
void TakeBatchOfRecipe(Settings& settings, int64_t configured_world) {
  const int64_t global_batch = settings.Int("global_batch");
  const int64_t share = (global_batch - 1) / configured_world + 1;
  settings.Derive("global_batch", absl::StrCat(global_batch), "the recipe's, for any number of workers");
  if (share < settings.Int("batch_size")) {
    settings.Derive("batch_size", absl::StrCat(share),
                    absl::StrCat("global_batch / ", Counted(configured_world, "worker")));
  }
}

/// Derives B from b if b is given, takes B of the recipe if neither is, and derives b from B if only B is
/// given. b is never above B.
absl::Status DeriveBatch(Settings& settings, int64_t configured_world) {
  const int64_t batch = settings.Int("batch_size"), accumulation = settings.Int("accumulation_steps");
  const int64_t parts = Images(accumulation, configured_world);
  if (!IsGlobalBatchFixed(settings)) {
    const bool per_worker = IsGiven(settings, "batch_size") || IsGiven(settings, "accumulation_steps");
    if (settings.IsSet("global_batch") && !per_worker) {
      TakeBatchOfRecipe(settings, configured_world);
      return absl::OkStatus();
    }
    const int64_t all = Images(batch, parts);
    if (all > kMaxImages) {
      return absl::InvalidArgumentError(absl::StrCat("--batch_size ", batch, " x --accumulation_steps ",
                                                     accumulation, " x ", Counted(configured_world, "worker"),
                                                     " is more than ", kMaxImages, " images per step"));
    }
    settings.Derive("global_batch", absl::StrCat(all),
                    absl::StrCat("batch_size x accumulation_steps x ", Counted(configured_world, "worker")));
    return absl::OkStatus();
  }
  const int64_t global_batch = settings.Int("global_batch");
  if (settings.IsDerived("batch_size")) return absl::OkStatus();  // set by AdoptBatch
  if (settings.SourceOf("batch_size") == SettingSource::kDefault) {
    settings.Derive(
        "batch_size", absl::StrCat((global_batch + parts - 1) / parts),
        absl::StrCat("global_batch / (accumulation_steps x ", Counted(configured_world, "worker"), ")"));
  } else if (batch > global_batch) {
    settings.Derive("batch_size", absl::StrCat(global_batch), "limited by global_batch");
  }
  return absl::OkStatus();
}

/// Leaves out the recipe's warm-up where the schedule has its own.
void DeriveWarmUp(Settings& settings) {
  if (settings.Text("schedule") != "one_cycle") return;
  for (const char* name : {"warmup_steps", "warmup_epochs"}) {
    if (!IsGiven(settings, name)) settings.Derive(name, "0", "one_cycle has its own warm-up");
  }
}

absl::StatusOr<TrainOptions> ToOptions(const Settings& settings) {
  TrainOptions o;
  for (const Option& option : AllOptions("")) {
    if (option.read) MT_RETURN_IF_ERROR(option.read(settings, o));
  }
  if (!settings.Bool("augment")) {
    o.augmentation = {};
    o.warps = {};
    o.mixing = {};
    o.random_resized_crop = false;
    o.reading.jitter = {};
  }
  if (!settings.Bool("sync_bn")) {
    o.sync_micro_batches = 0;
  } else if (o.sync_micro_batches == 0) {
    o.sync_micro_batches = o.plan.micro_batches();
  }
  return o;
}

/// Takes the files that follow with --predict, with flags between and after them; otherwise none may follow.
absl::Status TakeFiles(std::vector<std::string> rest, Settings& settings, std::vector<std::string>* more) {
  while (!rest.empty()) {
    if (!settings.IsSet("predict")) return settings.NotAFlag(rest);
    more->push_back(rest.front());
    rest.erase(rest.begin());
    MT_ASSIGN_OR_RETURN(rest, settings.ParseFlags(rest, /*positionals_allowed=*/true));
  }
  return absl::OkStatus();
}

/// Refuses a flag that counts only with a mode that is not asked for: the program would train and ignore it.
absl::Status CheckModeFlags(const Settings& settings) {
  struct ModeFlag {
    const char* name;
    std::vector<std::string> modes;
    const char* training;  // what a person who wants to train may have meant
  };
  const ModeFlag flags[] = {
      {"out", {"predict", "evaluate"}, "; a training writes to --model_folder"},
      {"weights_of", {"predict", "export"}, "; a training begins with the weights of --init_from"},
      {"top_k", {"predict"}, ""},
      {"onnx", {"export"}, ""},
  };
  const auto asked = [&](const std::string& mode) { return settings.IsSet(mode); };
  for (const ModeFlag& flag : flags) {
    if (settings.SourceOf(flag.name) != SettingSource::kFlag || absl::c_any_of(flag.modes, asked)) continue;
    return absl::InvalidArgumentError(absl::StrCat("--", flag.name, " counts only with --",
                                                   absl::StrJoin(flag.modes, " and --"), flag.training));
  }
  return absl::OkStatus();
}

/// Replaces {NAME} in --model_folder by the setting's value, without its folders, and {trainer} by `program`.
absl::Status FillFolder(const std::string& program, Settings& settings) {
  const std::string given = settings.Text("model_folder");
  std::string filled;
  absl::string_view rest = given;
  for (size_t open = rest.find('{'); open != absl::string_view::npos; open = rest.find('{')) {
    const size_t close = rest.find('}', open);
    if (close == absl::string_view::npos) break;
    const std::string name(rest.substr(open + 1, close - open - 1));
    const bool known = name == "trainer" || (settings.Has(name) && settings.IsSet(name));
    if (!known)
      return absl::InvalidArgumentError(absl::StrCat("--model_folder ", given, ": {", name,
                                                     "} is no setting with a value; {trainer}, {seed} and "
                                                     "{learning_rate} are some"));
    const std::string value = name == "trainer" ? program : settings.Text(name);
    absl::StrAppend(&filled, rest.substr(0, open), value.substr(value.find_last_of('/') + 1));
    rest.remove_prefix(close + 1);
  }
  if (filled.empty()) return absl::OkStatus();
  return settings.Replace("model_folder", absl::StrCat(filled, rest));
}

}  // namespace

std::string DescribeUnusedAugmentation(const Settings& settings) {
  if (settings.Bool("augment")) return "";
  OptionTable table("");
  ListAugmentations(table);
  std::vector<std::string> given;
  for (const Option& option : table.options()) {
    const std::string& name = option.spec.name;
    if (name != "augment" && settings.SourceOf(name) == SettingSource::kFlag) given.push_back("--" + name);
  }
  if (given.empty()) return "";
  return absl::StrCat(absl::StrJoin(given, ", "), ": without --augment training images stay as they are");
}

std::vector<Option> AllOptions(const std::string& program, const std::vector<Option>& own) {
  OptionTable table(program);
  ListOptions(table);
  std::vector<Option> all = table.options();
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

Settings MakeSettings(const std::string& program, const Recipe& recipe, const std::vector<Option>& own,
                      const std::vector<std::pair<std::string, std::string>>& aliases) {
  std::vector<SettingSpec> specs;
  for (Option& option : AllOptions(program, own)) specs.push_back(std::move(option.spec));
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
                                  const EnvironmentMap& environment, Settings& settings,
                                  std::vector<std::string>* more,
                                  const std::function<void(Settings&)>& derive) {
  MT_ASSIGN_OR_RETURN(std::vector<std::string> rest, settings.ParseFlags(args, more != nullptr));
  for (const char* asked : {"help", "version"}) {
    if (settings.IsSet(asked) && settings.Bool(asked)) return false;
  }
  MT_RETURN_IF_ERROR(TakeFiles(std::move(rest), settings, more));
  MT_RETURN_IF_ERROR(settings.ApplyEnvironment(environment, kEnvironmentPrefix));
  if (const std::string file = settings.Text("config"); !file.empty()) {
    const bool known = environment.contains(kCheckedVariable);
    MT_RETURN_IF_ERROR(
        settings.ApplyYaml(file, program, known ? MissingSection::kFine : MissingSection::kWarn));
  }
  MT_RETURN_IF_ERROR(CheckModeFlags(settings));
  if (derive) derive(settings);
  MT_RETURN_IF_ERROR(FillFolder(program, settings));
  return true;
}

void AdoptBatch(const datasets::BatchPlan& checkpoint, Settings& settings) {
  const bool named = IsGiven(settings, "global_batch");
  if (named && settings.Int("global_batch") != checkpoint.global_batch) return;
  if (!named) {
    settings.Derive("global_batch", absl::StrCat(checkpoint.global_batch), "the checkpoint in model_folder");
  }
  if (settings.SourceOf("batch_size") == SettingSource::kDefault) {
    settings.Derive("batch_size", absl::StrCat(checkpoint.micro_batch), "the checkpoint in model_folder");
  }
}

void AdoptRate(const std::string& checkpoint, Settings& settings) {
  if (settings.IsDerived("learning_rate"))
    settings.Derive("learning_rate", checkpoint, "the checkpoint in model_folder");
}

absl::StatusOr<TrainOptions> MakeOptions(int64_t configured_world, Settings& settings) {
  if (settings.Text("data").empty()) {
    return absl::InvalidArgumentError(
        "--data is missing: give a packed data set (mtdata import SOURCE DEST creates one)");
  }
  MT_RETURN_IF_ERROR(DeriveBatch(settings, configured_world));
  DeriveWarmUp(settings);
  MT_ASSIGN_OR_RETURN(const TrainOptions options, ToOptions(settings));
  MT_RETURN_IF_ERROR(CheckTogether(options));
  return options;
}

}  // namespace mtrun::trainers
