#include "launcher/cli/options.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/help_page.h"
#include "base/settings.h"
#include "base/status_macros.h"
#include "base/strange_flag.h"
#include "launcher/cli/option_table.h"
#include "launcher/cli/options_reading.h"
#include "launcher/cli/slurm_step.h"

namespace mtrun::launcher {
namespace {

/// Returns how many of `args` belong to mtrun if `--trainer NAME` ends them; otherwise all of `args`.
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

/// Stores one option in `options`, according to its target's type.
struct TargetReader {
  const OptionContext& context;
  Options& options;

  absl::Status operator()(bool Options::*member) const {
    options.*member = context.settings.Bool(context.name);
    return absl::OkStatus();
  }
  absl::Status operator()(std::string Options::*member) const {
    options.*member = context.settings.Text(context.name);
    return absl::OkStatus();
  }
  absl::Status operator()(std::optional<int> Options::*member) const {
    if (IsSet()) options.*member = static_cast<int>(context.settings.Int(context.name));
    return absl::OkStatus();
  }
  absl::Status operator()(Duration Options::*member) const {
    if (IsSet()) options.*member = FromSeconds(context.settings.Double(context.name));
    return absl::OkStatus();
  }
  absl::Status operator()(std::map<int, int> Options::*member) const {
    return ReadStreams(context.settings, context.name, &(options.*member));
  }
  absl::Status operator()(std::set<int> Options::*member) const {
    return ReadLocalRanks(context.settings, context.name, &(options.*member));
  }
  absl::Status operator()(std::vector<std::string> Options::*member) const {
    options.*member = SplitTexts(context.settings.Text(context.name));
    return absl::OkStatus();
  }
  absl::Status operator()(OptionReader read) const { return read(context, &options); }
  absl::Status operator()(const PartOf&) const { return absl::OkStatus(); }
  absl::Status operator()(const NoEffect&) const { return absl::OkStatus(); }
  absl::Status operator()(const Asks&) const { return absl::OkStatus(); }

  bool IsSet() const { return context.settings.IsSet(context.name); }
};

/// Adds one note about the given torchrun settings that have no effect here.
void NoteIgnored(const Settings& settings, Options* options) {
  std::vector<std::string> said;
  for (const Option& option : OptionRows()) {
    const auto* without = std::get_if<NoEffect>(&option.target);
    const std::string& name = option.spec.name;
    if (without == nullptr || !settings.IsSet(name)) continue;
    if (settings.Text(name) == "null" || settings.Text(name) == "default") continue;  // the default here too
    said.push_back(absl::StrCat(Named(settings, name), " (", without->why, ")"));
  }
  if (!said.empty()) options->notes.push_back(absl::StrCat("without effect: ", absl::StrJoin(said, ", ")));
}

/// Returns whether the user asked for exactly one node, not just as a minimum.
bool IsGivenOneNode(const Settings& settings) {
  const std::vector<std::string> parts = absl::StrSplit(settings.Text("nnodes"), ':');
  int most = 0;
  return IsGiven(settings, "nnodes") && absl::SimpleAtoi(parts.back(), &most) && most == 1;
}

/// Derives settings from Slurm's variables if this is a Slurm step and the user gave no other location.
absl::Status DeriveFromSlurm(const EnvironmentMap& environment, bool in_shell, Settings* settings,
                             Options* options) {
  if (!IsInSlurmStep(environment)) return absl::OkStatus();
  for (const char* name : {"standalone", "rdzv_endpoint", "master_addr", "master_port"}) {
    if (IsGiven(*settings, name)) return absl::OkStatus();
  }
  // As in torchrun, an explicit single node is a job of its own, even if the step starts others. In a shell
  // there is one mtrun, which was not started by srun.
  const bool shells_node = in_shell && !IsGiven(*settings, "nnodes");
  const bool own_job = shells_node || IsGivenOneNode(*settings);
  if (!in_shell && !own_job) MT_RETURN_IF_ERROR(CheckOneTaskANode(environment));
  MT_ASSIGN_OR_RETURN(const std::vector<DerivedSetting> derived, SettingsOfSlurmStep(environment));
  std::vector<std::string> said;
  const bool alone = derived.front().value == "1" && !IsGiven(*settings, "nnodes");
  for (const DerivedSetting& each : derived) {
    if (IsGiven(*settings, each.name) || (alone && each.name == "rdzv_endpoint")) continue;
    if (own_job && each.name != "nproc_per_node") continue;
    settings->Derive(each.name, each.value, each.source);
    said.push_back(absl::StrCat("--", each.name, " ", each.value, " (", each.source, ")"));
  }
  if (shells_node && !alone)
    said.push_back(absl::StrCat("--nnodes 1 (a shell of srun --pty; srun --overlap mtrun uses all ",
                                derived.front().value, " nodes)"));
  options->nodes_from_slurm = !own_job && !alone && !IsGiven(*settings, "nnodes");
  if (!said.empty()) options->derived = absl::StrCat("from Slurm: ", absl::StrJoin(said, ", "));
  return absl::OkStatus();
}

/// Adds a hint to a strange flag: it often belongs to the program and was given too early.
absl::Status WithAdvice(const absl::Status& status) {
  if (!IsStrangeFlag(status)) return status;
  return absl::InvalidArgumentError(absl::StrCat(
      status.message(), " (flags of your own program go after its name; --help lists those of mtrun)"));
}

/// Reads --config. If a trainer runs, it may have only the trainer's section; none is named like "mtrun".
absl::Status ReadConfig(Settings& settings) {
  const MissingSection missing =
      RunsTrainer(settings) ? MissingSection::kFineUnlessMisspelt : MissingSection::kWarn;
  return Annotate(settings.ApplyYaml(settings.Text("config"), "mtrun", missing), "--config");
}

/// Returns whether the answer does not depend on other settings.
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
  if (derived.empty())
    MT_RETURN_IF_ERROR(DeriveFromSlurm(environment, machine.in_slurm_shell, &settings, &options));
  for (const Option& option : OptionRows()) {
    const OptionContext context{option.spec.name, settings, environment, machine, *rest};
    MT_RETURN_IF_ERROR(std::visit(TargetReader{context, options}, option.target));
  }
  NoteIgnored(settings, &options);
  return options;
}

std::string HelpText() {
  const HelpPage page = {
      .purpose = "Runs a program on one or more nodes, and keeps it running if parts of them fail.",
      .usage = {"mtrun [flags] PROGRAM [arguments]", "mtrun [flags] -m MODULE [arguments]",
                "mtrun [flags] --trainer NAME [the trainer's flags]",
                "mtrun --hosts HOST,HOST [flags] PROGRAM [arguments]",
                "mtrun --status|--top|--stop ENDPOINT [flags]",
                "mtrun --logs RANK|--drain NODE|--evict NODE ENDPOINT [flags]", "mtrun --doctor [ENDPOINT]",
                "mtrun predict RUN FILE...", "mtrun export RUN FOLDER"},
      .examples = {{"four workers on this machine", "mtrun --standalone --nproc_per_node 4 train.py"},
                   {"an elastic job; the same command on each of its two to four nodes",
                    "mtrun --nnodes 2:4 --nproc_per_node 8 --rdzv_endpoint node1:29400 train.py"},
                   {"the nodes of that job, their workers and restarts", "mtrun --status node1:29400"}},
      .notes =
          "Dashes and underscores in flags are alike. A flag can also be set as PET_<NAME>, or in\n"
          "the section mtrun of --config. LOGLEVEL=debug prints every decision.\n"
          "mtrun train NAME, status, top, stop and doctor are the flags of these names as words; a\n"
          "program of such a name in this folder is run instead.\n"};
  return mtrun::HelpText(page, Settings("mtrun", OptionTable()).Help());
}

}  // namespace mtrun::launcher
