#include "trainers/program/weights_source.h"

#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/json_text.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "trainers/checkpoints/checkpoint.h"
#include "trainers/checkpoints/manifest.h"
#include "trainers/checkpoints/run_state.h"
#include "trainers/program/description.h"
#include "trainers/run/loop/best_weights.h"
#include "trainers/weights/init_from.h"

namespace mtrun::trainers {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxReport = 64 << 20;

bool Exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::string ConfigIn(const std::string& folder) {
  const std::string config = folder + "/config.yaml";
  return Exists(config) ? config : "";
}

/// Returns the config.yaml of a file's run: beside the file, or one folder up if the file is a checkpoint's.
std::string ConfigOf(const std::string& file) {
  const fs::path parent = fs::path(file).parent_path();
  std::error_code unreadable;
  const fs::path folder = fs::canonical(parent.empty() ? "." : parent, unreadable);
  if (unreadable) return "";
  if (std::string config = ConfigIn(folder.string()); !config.empty()) return config;
  const bool step = checkpoints::ParseStepFolder(folder.filename().string()).has_value();
  return step ? ConfigIn(folder.parent_path().string()) : "";
}

/// Reads model.json, the only place where earlier releases' exports record what images and network depend on.
void ReadExported(WeightsSource& source) {
  const absl::StatusOr<std::string> text =
      ReadFile((fs::path(source.file).parent_path() / "model.json").string());
  if (!text.ok()) return;
  const auto object = ParseJsonObject(*text, kMaxReport);
  if (!object.ok()) return;
  nlohmann::json settings = nlohmann::json::object();
  for (const auto& [name, value] : object->items()) {
    if (value.is_string()) settings[name] = value;
    if (name == "part" && value.is_number()) source.metadata[name] = value.dump();
  }
  source.metadata["settings"] = settings.dump();
}

/// Reads the metadata, which only safetensors files have.
void ReadAbout(WeightsSource& source) {
  if (absl::StatusOr<std::map<std::string, std::string>> metadata = ReadMetadata(source.file); metadata.ok())
    source.metadata = *std::move(metadata);
  if (const auto program = source.metadata.find("program"); program != source.metadata.end())
    source.program = program->second;
  if (!source.metadata.empty() && source.metadata.count("settings") == 0) ReadExported(source);
}

absl::StatusOr<WeightsSource> FromFile(const std::string& path) {
  WeightsSource source{.what = path, .file = path, .average = "", .config = ConfigOf(path)};
  ReadAbout(source);
  return source;
}

absl::StatusOr<WeightsSource> FromCheckpoint(const checkpoints::Checkpoint& checkpoint,
                                             const std::string& run) {
  WeightsSource source{.what = checkpoint.path,
                       .file = checkpoint.path + "/" + checkpoints::kModelFile,
                       .average = "",
                       .config = ConfigIn(run)};
  ReadAbout(source);
  MT_ASSIGN_OR_RETURN(const checkpoints::RunState state, checkpoints::DecodeRunState(checkpoint.state));
  const auto program = state.identity.find("program"), decay = state.identity.find("ema_decay");
  if (program != state.identity.end()) source.program = program->second;
  if (decay != state.identity.end() && decay->second != "0")
    source.average = checkpoint.path + "/" + checkpoints::kOptimizerFile;
  return source;
}

/// `folder` can be a link, such as best.
absl::StatusOr<WeightsSource> FromStep(const std::string& folder) {
  std::error_code unreadable;
  const fs::path real = fs::canonical(folder, unreadable);
  const auto step = checkpoints::ParseStepFolder(real.filename().string());
  if (unreadable || !step)
    return absl::InvalidArgumentError(absl::StrCat(folder, " is not named like a checkpoint (step_N)"));
  MT_ASSIGN_OR_RETURN(const checkpoints::Checkpoint checkpoint,
                      checkpoints::ReadCheckpoint(checkpoints::RealFiles(), real.string(), *step));
  return FromCheckpoint(checkpoint, real.parent_path().string());
}

/// Returns "" if there are none.
std::string FinalFile(const std::string& folder) {
  for (const char* name : {"/model_ema.safetensors", "/model.safetensors"}) {
    if (Exists(folder + name)) return folder + name;
  }
  return "";
}

/// Returns whether `file` is of `epoch`. The best weights can be of an undone epoch, or another node's.
bool IsOfEpoch(const std::string& file, int64_t epoch) {
  const auto metadata = ReadMetadata(file);
  if (!metadata.ok()) return false;
  const auto found = metadata->find("epoch");
  return found != metadata->end() && found->second == absl::StrCat(epoch);
}

/// Returns the checkpoint after `epoch`, or "" if there is none.
std::string CheckpointOf(const std::string& folder, const nlohmann::json& report, int64_t epoch) {
  for (const auto& line : report.value("history", nlohmann::json::array())) {
    if (!line.is_object() || line.value("eval", nlohmann::json()) != epoch) continue;
    const auto steps = WholeNumber<int64_t>(line.value("steps", nlohmann::json()));
    if (!steps) continue;
    const std::string path = absl::StrCat(folder, "/", checkpoints::StepFolder(*steps));
    if (Exists(absl::StrCat(path, "/", checkpoints::kDoneFile))) return path;
  }
  return "";
}

absl::StatusOr<WeightsSource> FromTestedEpoch(const std::string& folder, const nlohmann::json& report,
                                              int64_t epoch) {
  const std::string best = absl::StrCat(folder, "/", kBestFile);
  if (IsOfEpoch(best, epoch)) return FromFile(best);
  if (const std::string step = CheckpointOf(folder, report, epoch); !step.empty()) return FromStep(step);
  return absl::NotFoundError(
      absl::StrCat(folder, ": the report describes the weights of epoch ", epoch, ", but neither ", kBestFile,
                   " nor a checkpoint in the folder has them: name other weights, such as ", folder,
                   "/model.safetensors"));
}

/// Returns the weights that the report's test figures describe, or nullopt without a report and its weights.
absl::StatusOr<std::optional<WeightsSource>> FromReport(const std::string& folder) {
  const std::string path = folder + "/report.json";
  if (!Exists(path)) return std::nullopt;
  MT_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  MT_ASSIGN_OR_RETURN(const nlohmann::json report, Annotate(ParseJsonObject(text, kMaxReport), path));
  if (const auto tested = WholeNumber<int64_t>(report.value("tested_epoch", nlohmann::json())))
    return FromTestedEpoch(folder, report, *tested);
  const std::string file = FinalFile(folder);
  if (file.empty()) return std::nullopt;
  return FromFile(file);
}

absl::StatusOr<WeightsSource> FromRun(const std::string& folder) {
  MT_ASSIGN_OR_RETURN(std::optional<WeightsSource> reported, FromReport(folder));
  if (reported) return *std::move(reported);
  MT_ASSIGN_OR_RETURN(const checkpoints::Search search,
                      checkpoints::FindNewest(checkpoints::RealFiles(), folder));
  if (search.newest) return FromCheckpoint(*search.newest, folder);
  if (const std::string file = FinalFile(folder); !file.empty()) return FromFile(file);
  return absl::NotFoundError(absl::StrCat(
      folder, " contains no weights: it is neither a run's folder nor a checkpoint (step_N) in one"));
}

/// Returns the settings that the weights record as flags, for weights without a config.yaml. Settings of
/// another release may be unknown here.
std::vector<std::string> FlagsOf(const WeightsSource& source, const Program& program) {
  const absl::StatusOr<Description> known = DescriptionOf(source.metadata);
  if (!known.ok()) return {};  // the caller that needs it reports the error
  std::vector<std::string> flags;
  if (const auto part = source.metadata.find("part"); part != source.metadata.end())
    flags.push_back(absl::StrCat("--eval_part=", part->second));
  if (program.images.adjustable) flags.push_back(absl::StrCat("--image_size=", known->image_size));
  for (const Option& option : program.settings) {
    const auto found = known->settings.find(option.spec.name);
    if (IsOfNetwork(option) && found != known->settings.end())
      flags.push_back(absl::StrCat("--", option.spec.name, "=", found->second));
  }
  return flags;
}

/// Returns whether a given setting excludes the run's: --amp and --precision float64 exclude each other.
bool IsExcluded(const Settings& settings, const std::string& name) {
  const auto asked = [&](const char* other) { return settings.SourceOf(other) != SettingSource::kDefault; };
  if (name == "amp") return asked("precision") && settings.Text("precision") == "float64";
  return name == "precision" && asked("amp") && settings.Text("amp") != "off";
}

/// Replaces fp16 by auto because fp16 needs a GPU. Without one, the figures are those of float32.
std::string AdoptedText(const Settings& run, const std::string& name) {
  const std::string text = run.Text(name);
  return name == "amp" && text == "fp16" ? "auto" : text;
}

}  // namespace

absl::StatusOr<WeightsSource> FindWeights(const std::string& path) {
  std::error_code ignored;
  if (!Exists(path)) return absl::NotFoundError(absl::StrCat(path, " does not exist"));
  if (!fs::is_directory(path, ignored)) return FromFile(path);
  const std::string folder = fs::path(path + "/").parent_path().string();
  return Exists(absl::StrCat(folder, "/", checkpoints::kDoneFile)) ? FromStep(folder) : FromRun(folder);
}

absl::Status CheckProgram(const WeightsSource& source, const std::string& program) {
  if (source.program.empty() || source.program == program) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(source.what, " was trained by ", source.program, ", not by ",
                                                 program, ": run ", source.program, " with it"));
}

absl::Status AdoptRunSettings(const WeightsSource& source, const Program& program, Settings& settings) {
  Settings run = MakeSettings(program.name, program.recipe, program.settings, program.aliases);
  const bool alone = source.config.empty();
  const std::string& where = alone ? source.file : source.config;
  if (!alone) {
    MT_RETURN_IF_ERROR(run.ApplyYaml(where, program.name, MissingSection::kFine));
  } else {
    MT_RETURN_IF_ERROR(
        Annotate(run.ParseFlags(FlagsOf(source, program), /*positionals_allowed=*/false), where));
  }
  for (const Option& option : AllOptions(program.name, program.settings)) {
    const std::string& name = option.spec.name;
    // Evaluations compute in the precision of training steps.
    const bool wanted = option.scope == Scope::kRun || name == "data" || name == "amp";
    if (!wanted || settings.SourceOf(name) != SettingSource::kDefault) continue;
    if (IsExcluded(settings, name)) continue;
    if (run.SourceOf(name) != SettingSource::kDefault) settings.Derive(name, AdoptedText(run, name), where);
  }
  return absl::OkStatus();
}

absl::Status LoadInto(const WeightsSource& source, const torch::nn::Module& module) {
  MT_ASSIGN_OR_RETURN(NamedTensors weights, LoadWeights(source.file, NamesOf(module)));
  if (!source.average.empty()) {
    MT_ASSIGN_OR_RETURN(const NamedTensors rest, LoadTensors(source.average));
    weights = WithAverages(std::move(weights), rest);
  }
  return Annotate(CopyInto(weights, module), source.file);
}

}  // namespace mtrun::trainers
