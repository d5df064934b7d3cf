#include "launcher/cli/options.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/settings.h"
#include "base/status_macros.h"
#include "launcher/cli/option_table.h"
#include "launcher/cli/options_reading.h"
#include "launcher/cli/slurm_step.h"

namespace mtrun::launcher {
namespace {

/// Length of the part of `args` that is mtrun's when `--trainer NAME` ends it; all of `args` otherwise.
size_t OwnArguments(const std::vector<std::string>& args) {
  for (size_t i = 0; i < args.size(); ++i) {
    const std::vector<std::string> parts = absl::StrSplit(args[i], absl::MaxSplits('=', 1));
    if (parts[0].size() < 4 || !absl::StartsWith("--trainer", parts[0])) continue;
    const size_t end = std::min(args.size(), i + (parts.size() == 2 ? 1 : 2));
    // A word that looks like --trainer after a program belongs to that program.
    Settings trial("mtrun", OptionTable());
    const std::vector<std::string> before(args.begin(), args.begin() + static_cast<std::ptrdiff_t>(i));
    const absl::StatusOr<std::vector<std::string>> rest = trial.ParseFlags(before, true);
    return rest.ok() && rest->empty() ? end : args.size();
  }
  return args.size();
}

/// Puts one option into `options`, by the kind of its target.
class TargetReader {
 public:
  TargetReader(const OptionContext& context, Options* options) : context_(context), options_(*options) {}

  absl::Status operator()(bool Options::*member) const {
    options_.*member = context_.settings.Bool(context_.name);
    return absl::OkStatus();
  }
  absl::Status operator()(std::string Options::*member) const {
    options_.*member = context_.settings.Text(context_.name);
    return absl::OkStatus();
  }
  absl::Status operator()(std::optional<int> Options::*member) const {
    if (IsSet()) options_.*member = static_cast<int>(context_.settings.Int(context_.name));
    return absl::OkStatus();
  }
  absl::Status operator()(Duration Options::*member) const {
    if (IsSet()) options_.*member = FromSeconds(context_.settings.Double(context_.name));
    return absl::OkStatus();
  }
  absl::Status operator()(std::map<int, int> Options::*member) const {
    return ReadStreams(context_.settings, context_.name, &(options_.*member));
  }
  absl::Status operator()(std::set<int> Options::*member) const {
    return ReadLocalRanks(context_.settings, context_.name, &(options_.*member));
  }
  absl::Status operator()(std::vector<std::string> Options::*member) const {
    options_.*member = SplitTexts(context_.settings.Text(context_.name));
    return absl::OkStatus();
  }
  absl::Status operator()(OptionReader read) const { return read(context_, &options_); }
  absl::Status operator()(const PartOf&) const { return absl::OkStatus(); }
  absl::Status operator()(const NoEffect&) const { return absl::OkStatus(); }
  absl::Status operator()(const Asks&) const { return absl::OkStatus(); }

 private:
  bool IsSet() const { return context_.settings.IsSet(context_.name); }

  const OptionContext& context_;
  Options& options_;
};

/// torchrun's settings that mean nothing here, in one note.
void NoteIgnored(const Settings& settings, Options* options) {
  std::vector<std::string> said;
  for (const Option& option : OptionRows()) {
    const auto* without = std::get_if<NoEffect>(&option.target);
    const std::string& name = option.spec.name;
    if (without == nullptr || !settings.IsSet(name)) continue;
    if (settings.Text(name) == "null" || settings.Text(name) == "default") continue;  // as mtrun does anyway
    said.push_back(absl::StrCat(Named(settings, name), " (", without->why, ")"));
  }
  if (!said.empty()) options->notes.push_back(absl::StrCat("without effect: ", absl::StrJoin(said, ", ")));
}

/// By its user, and not only until others come.
bool IsGivenOneNode(const Settings& settings) {
  const std::vector<std::string> parts = absl::StrSplit(settings.Text("nnodes"), ':');
  int most = 0;
  return IsGiven(settings, "nnodes") && absl::SimpleAtoi(parts.back(), &most) && most == 1;
}

/// Within a Slurm step whose user has not said where the other nodes are, what Slurm says of them.
absl::Status DeriveFromSlurm(const EnvironmentMap& environment, Settings* settings, Options* options) {
  if (!IsInSlurmStep(environment)) return absl::OkStatus();
  for (const char* name : {"standalone", "rdzv_endpoint", "master_addr", "master_port"}) {
    if (IsGiven(*settings, name)) return absl::OkStatus();
  }
  MT_ASSIGN_OR_RETURN(const std::vector<DerivedSetting> derived, SettingsOfSlurmStep(environment));
  std::vector<std::string> said;
  // As with torchrun one that is told to be one node is a job of its own, whatever else the step starts.
  const bool own_job = IsGivenOneNode(*settings);
  const bool alone = derived.front().value == "1" && !IsGiven(*settings, "nnodes");
  for (const DerivedSetting& each : derived) {
    if (IsGiven(*settings, each.name) || (alone && each.name == "rdzv_endpoint")) continue;
    if (own_job && each.name != "nproc_per_node") continue;
    settings->Derive(each.name, each.value, each.source);
    said.push_back(absl::StrCat("--", each.name, " ", each.value, " (", each.source, ")"));
  }
  if (!said.empty()) options->derived = absl::StrCat("from Slurm: ", absl::StrJoin(said, ", "));
  return absl::OkStatus();
}

/// A flag nobody knows is often one of the program's, given too early.
absl::Status WithAdvice(const absl::Status& status) {
  if (!absl::StartsWith(status.message(), "unknown flag") ||
      absl::StrContains(status.message(), "did you mean"))
    return status;
  return absl::InvalidArgumentError(absl::StrCat(
      status.message(), " (flags of your own program go after its name; --help lists those of mtrun)"));
}

/// With a trainer the file may be meant for that alone; no trainer's name is almost mtrun's.
absl::Status ReadConfig(Settings& settings) {
  const MissingSection missing =
      RunsTrainer(settings) ? MissingSection::kFineUnlessMisspelt : MissingSection::kWarn;
  return Annotate(settings.ApplyYaml(settings.Text("config"), "mtrun", missing), "--config");
}

/// Is the same whatever is set.
bool AsksNobody(Options::Act act) {
  using Act = Options::Act;
  return act == Act::kHelp || act == Act::kVersion || act == Act::kCompletion || act == Act::kNewToken;
}

}  // namespace

absl::StatusOr<Options> ParseOptions(const std::vector<std::string>& args, const EnvironmentMap& environment,
                                     const MachineFacts& machine,
                                     const std::vector<DerivedSetting>& derived) {
  Settings settings("mtrun", OptionTable());
  const auto own_end = args.begin() + static_cast<std::ptrdiff_t>(OwnArguments(args));
  absl::StatusOr<std::vector<std::string>> rest = settings.ParseFlags({args.begin(), own_end}, true);
  if (!rest.ok()) return WithAdvice(rest.status());
  rest->insert(rest->end(), own_end, args.end());

  Options options;
  MT_RETURN_IF_ERROR(ReadQuestion(*rest, &settings, &options));
  if (AsksNobody(options.act)) return options;
  MT_RETURN_IF_ERROR(settings.ApplyEnvironment(environment, "PET_"));
  if (settings.IsSet("config")) MT_RETURN_IF_ERROR(ReadConfig(settings));
  if (options.act != Options::Act::kRun) {
    MT_RETURN_IF_ERROR(ReadAskers(settings, &options));
    return options;
  }
  for (const DerivedSetting& each : derived) settings.Derive(each.name, each.value, each.source);
  if (derived.empty() && NamesHosts(settings)) {
    const std::string hosts = "hosts";
    MT_RETURN_IF_ERROR(ReadHosts({hosts, settings, environment, machine, *rest}, &options));
    return options;
  }
  if (derived.empty()) MT_RETURN_IF_ERROR(DeriveFromSlurm(environment, &settings, &options));
  for (const Option& option : OptionRows()) {
    const OptionContext context{option.spec.name, settings, environment, machine, *rest};
    MT_RETURN_IF_ERROR(std::visit(TargetReader(context, &options), option.target));
  }
  NoteIgnored(settings, &options);
  return options;
}

std::string HelpText() {
  return absl::StrCat(
      "usage: mtrun [flags] PROGRAM [arguments]\n"
      "       mtrun [flags] -m MODULE [arguments]\n"
      "       mtrun [flags] --trainer NAME [the trainer's flags]\n"
      "       mtrun --hosts HOST,HOST [flags] PROGRAM [arguments]\n"
      "       mtrun --trainer list\n"
      "       mtrun --status ENDPOINT [--json] [--watch]\n"
      "       mtrun --top ENDPOINT\n"
      "       mtrun --drain NODE ENDPOINT [--rdzv_id ID]\n"
      "       mtrun --evict NODE ENDPOINT [--rdzv_id ID]\n"
      "       mtrun --stop ENDPOINT [--checkpoint] [--rdzv_id ID]\n"
      "       mtrun --logs RANK ENDPOINT [--follow] [--rdzv_id ID]\n"
      "       mtrun --doctor [ENDPOINT]\n\n"
      "Starts the workers of this node and keeps them one job with those of the other\n"
      "nodes. Every flag may also be set as PET_<NAME> or in the mtrun: section of\n"
      "--config; dashes and underscores are alike.\n",
      Settings("mtrun", OptionTable()).Help());
}

}  // namespace mtrun::launcher
