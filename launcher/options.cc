#include "launcher/options.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/settings.h"
#include "base/status_macros.h"
#include "launcher/endpoint.h"
#include "launcher/option_table.h"
#include "launcher/options_reading.h"
#include "launcher/worker_environment.h"

namespace mtrun::launcher {
namespace {

constexpr int kTrainerRestarts = 10;
constexpr int kTrainerRefundSteps = 100;
constexpr Duration kTrainerHangTimeout = std::chrono::minutes(10);

absl::Status ReadNodes(const Settings& settings, Options* options) {
  const absl::Status wrong = NotAllowed(settings, "nnodes", "N or MIN:MAX with 1 <= MIN <= MAX");
  const std::vector<std::string> parts = absl::StrSplit(settings.Text("nnodes"), ':');
  if (parts.size() > 2) return wrong;
  rendezvous::JobSettings& job = options->job;
  if (!absl::SimpleAtoi(parts.front(), &job.min_nodes) || !absl::SimpleAtoi(parts.back(), &job.max_nodes))
    return wrong;
  return job.min_nodes >= 1 && job.min_nodes <= job.max_nodes ? absl::OkStatus() : wrong;
}

absl::Status ReadWorkers(const Settings& settings, const MachineFacts& machine, Options* options) {
  const std::string text = settings.Text("nproc_per_node");
  if (text == "cpu" || (text == "auto" && machine.gpus == 0)) {
    options->workers = machine.cpus;
  } else if (text == "gpu" || text == "auto") {
    options->workers = machine.gpus;
    if (machine.gpus == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(Named(settings, "nproc_per_node"),
                       ": \"gpu\" needs an NVIDIA GPU and none is visible here; use N, auto or cpu"));
    }
  } else if (text == "xpu" || text == "hpu" || text == "mps" || text == "privateuseone") {
    return NotAllowed(
        settings, "nproc_per_node",
        "a number, auto, cpu or gpu (only PyTorch itself can count such devices: give their number)");
  } else if (!absl::SimpleAtoi(text, &options->workers) || options->workers < 1) {
    return NotAllowed(settings, "nproc_per_node", "a number from 1, auto, cpu or gpu");
  }
  return absl::OkStatus();
}

absl::Status ReadVirtualRank(const Settings& settings, const EnvironmentMap& environment, Options* options) {
  options->virtual_local_rank = settings.Bool("virtual_local_rank");
  if (!options->virtual_local_rank || !DeviceOf(environment, options->workers - 1).empty())
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(Named(settings, "virtual_local_rank"), " gives each of the ", options->workers,
                   " workers a device of its own, but CUDA_VISIBLE_DEVICES is \"",
                   environment.at("CUDA_VISIBLE_DEVICES"), "\""));
}

absl::Status ReadEntry(const Settings& settings, std::vector<std::string> rest, Options* options) {
  EntryPoint& entry = options->entry;
  entry.trainer = settings.Text("trainer");
  entry.module = settings.Bool("module");
  entry.no_python = settings.Bool("no_python");
  entry.run_path = settings.Bool("run_path");
  if (entry.run_path) entry.no_python = false;
  entry.words = std::move(rest);
  if (entry.module && entry.no_python)
    return absl::InvalidArgumentError("--module and --no_python exclude each other");
  if (!entry.trainer.empty()) {
    if (entry.module || entry.no_python || entry.run_path || settings.Bool("virtual_local_rank")) {
      return absl::InvalidArgumentError(
          "--trainer names a program of mtrun's own; --module, --no_python, --run_path and "
          "--virtual_local_rank do "
          "not go with it");
    }
    // One file serves both; a --config among the trainer's own flags comes later and wins.
    if (settings.IsSet("config"))
      entry.words.insert(entry.words.begin(), {"--config", settings.Text("config")});
    if (settings.SourceOf("role") == SettingSource::kDefault) options->role = entry.trainer;
    return absl::OkStatus();
  }
  if (entry.words.empty()) {
    return absl::InvalidArgumentError(
        "nothing to run: give a program and its arguments, or --trainer NAME (see --help)");
  }
  return absl::OkStatus();
}

/// Length of the part of `args` that is mtrun's when `--trainer NAME` ends it; all of `args` otherwise.
size_t OwnArguments(const std::vector<std::string>& args) {
  for (size_t i = 0; i < args.size(); ++i) {
    const std::vector<std::string> parts = absl::StrSplit(args[i], absl::MaxSplits('=', 1));
    if (parts[0].size() < 4 || !absl::StartsWith("--trainer", parts[0])) continue;
    const size_t end = std::min(args.size(), i + (parts.size() == 2 ? 1 : 2));
    // A word that looks like --trainer behind a program belongs to that program.
    Settings trial("mtrun", OptionTable());
    const std::vector<std::string> before(args.begin(), args.begin() + static_cast<std::ptrdiff_t>(i));
    const absl::StatusOr<std::vector<std::string>> rest = trial.ParseFlags(before, true);
    return rest.ok() && rest->empty() ? end : args.size();
  }
  return args.size();
}

/// What is done about workers that die or stand still. Of trainers more is known than of other programs.
void ReadFaults(const Settings& settings, Options* options) {
  const bool trainer = !options->entry.trainer.empty();
  options->job.max_restarts = static_cast<int>(settings.Int("max_restarts"));
  // A worker's death costs a trainer a second: bad luck does not end the job, a crash loop does.
  if (trainer && settings.SourceOf("max_restarts") == SettingSource::kDefault)
    options->job.max_restarts = kTrainerRestarts;
  if (trainer) options->job.refund_steps = kTrainerRefundSteps;
  options->warm_up = trainer;
  options->preempt_file = settings.Text("preempt_file");
  if (settings.IsSet("hang_timeout")) {
    options->hang_timeout = FromSeconds(settings.Double("hang_timeout"));
  } else if (trainer) {
    options->hang_timeout = kTrainerHangTimeout;
  }
  // A program that does not say how far it is cannot be watched, unless a person says that it does.
  if (trainer || settings.IsSet("hang_timeout"))
    options->hang_notice = FromSeconds(settings.Double("hang_notice"));
}

/// SIGTERM's grace, and which signals count.
absl::Status ReadStopping(const Settings& settings, const EnvironmentMap& environment, Options* options) {
  constexpr char kGraceVariable[] = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT";
  if (settings.IsSet("shutdown_timeout")) {
    options->shutdown_timeout = FromSeconds(settings.Double("shutdown_timeout"));
  } else if (const auto grace = environment.find(kGraceVariable);
             grace != environment.end() && !grace->second.empty()) {
    double seconds = 0;
    if (!absl::SimpleAtod(grace->second, &seconds) || !(seconds >= 0 && seconds < 1e9)) {
      return absl::InvalidArgumentError(absl::StrCat(kGraceVariable, ": \"", grace->second,
                                                     "\" is not allowed; it takes seconds, 0 or more"));
    }
    options->shutdown_timeout = FromSeconds(seconds);
  }
  std::vector<std::string> unknown;
  SignalPlan& plan = options->signals;
  plan.forward = ParseSignals(settings.Text("signals_to_forward"), &unknown);
  if (settings.IsSet("signals_to_handle")) {
    plan.stop = ParseSignals(settings.Text("signals_to_handle"), &unknown);
    plan.stop_is_default = false;
  }
  for (const std::string& name : unknown) {
    options->notes.push_back(absl::StrCat(
        "no handler for \"", name, "\": it is not a signal that can be handled (SIGTERM, SIGUSR1, ...)"));
  }
  // A signal that is only to be passed on must not stop anything.
  std::erase_if(plan.stop, [&](int signal) {
    return std::find(plan.forward.begin(), plan.forward.end(), signal) != plan.forward.end();
  });
  return absl::OkStatus();
}

/// torchrun's settings that mean nothing here, in one note.
void NoteIgnored(const Settings& settings, Options* options) {
  const std::vector<std::pair<std::string, std::string>> ignored = {
      {"monitor_interval", "a worker's death is noticed at once"},
      {"start_method", "workers are programs of their own"},
      {"exit_barrier_timeout", "there is no barrier, all leave when the job is over"},
      {"event_log_handler", "--event_log FILE records events"}};
  std::vector<std::string> said;
  for (const auto& [name, why] : ignored) {
    if (settings.IsSet(name) && settings.Text(name) != "null")
      said.push_back(absl::StrCat(Named(settings, name), " (", why, ")"));
  }
  if (!said.empty()) options->notes.push_back(absl::StrCat("without effect: ", absl::StrJoin(said, ", ")));
}

absl::Status ReadStatusQuestion(const Settings& settings, const std::vector<std::string>& rest,
                                Options* options) {
  options->json = settings.Bool("json");
  options->insecure_given = settings.Bool("insecure");
  options->status_endpoint = settings.Text("status");
  if (!settings.IsSet("status"))
    return options->json ? absl::InvalidArgumentError("--json goes with --status HOST:PORT")
                         : absl::OkStatus();
  if (options->act != Options::Act::kRun) return absl::OkStatus();
  if (!rest.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--status only asks; \"", rest.front(), "\" would not be run: give one or the other"));
  }
  const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(options->status_endpoint);
  if (!endpoint.ok()) return Annotate(endpoint.status(), "--status");
  options->status_endpoint = ToText(*endpoint);
  options->act = Options::Act::kStatus;
  return absl::OkStatus();
}

/// A flag nobody knows is often one of the program's, given too early.
absl::Status WithAdvice(const absl::Status& status) {
  if (!absl::StartsWith(status.message(), "unknown flag") ||
      absl::StrContains(status.message(), "did you mean"))
    return status;
  return absl::InvalidArgumentError(absl::StrCat(
      status.message(), " (flags of your own program go behind its name; --help lists those of mtrun)"));
}

}  // namespace

absl::StatusOr<Options> ParseOptions(const std::vector<std::string>& args, const EnvironmentMap& environment,
                                     const MachineFacts& machine, const std::vector<std::string>& trainers) {
  Settings settings("mtrun", OptionTable());
  const auto own_end = args.begin() + static_cast<std::ptrdiff_t>(OwnArguments(args));
  absl::StatusOr<std::vector<std::string>> rest = settings.ParseFlags({args.begin(), own_end}, true);
  if (!rest.ok()) return WithAdvice(rest.status());
  rest->insert(rest->end(), own_end, args.end());

  Options options;
  if (settings.Bool("help")) options.act = Options::Act::kHelp;
  if (settings.Bool("version")) options.act = Options::Act::kVersion;
  if (settings.IsSet("print_completion")) options.act = Options::Act::kCompletion;
  options.completion_shell = settings.Text("print_completion");
  MT_RETURN_IF_ERROR(ReadStatusQuestion(settings, *rest, &options));
  if (options.act != Options::Act::kRun) return options;
  MT_RETURN_IF_ERROR(settings.ApplyEnvironment(environment, "PET_"));
  if (settings.IsSet("config"))
    MT_RETURN_IF_ERROR(Annotate(settings.ApplyYaml(settings.Text("config"), "mtrun", trainers), "--config"));

  MT_RETURN_IF_ERROR(ReadNodes(settings, &options));
  MT_RETURN_IF_ERROR(ReadWorkers(settings, machine, &options));
  MT_RETURN_IF_ERROR(ReadMeeting(settings, &options));
  MT_RETURN_IF_ERROR(ReadOutput(settings, environment, &options));
  MT_RETURN_IF_ERROR(ReadStopping(settings, environment, &options));
  options.role = settings.Text("role");
  MT_RETURN_IF_ERROR(ReadEntry(settings, *std::move(rest), &options));
  ReadFaults(settings, &options);
  if (settings.IsSet("node_rank")) options.node_rank = static_cast<int>(settings.Int("node_rank"));
  MT_RETURN_IF_ERROR(ReadVirtualRank(settings, environment, &options));
  options.numa_binding = settings.Text("numa_binding");
  NoteIgnored(settings, &options);
  return options;
}

std::string HelpText() {
  return absl::StrCat(
      "usage: mtrun [flags] PROGRAM [arguments]\n"
      "       mtrun [flags] -m MODULE [arguments]\n"
      "       mtrun [flags] --trainer NAME [the trainer's flags]\n"
      "       mtrun --status HOST:PORT [--json]\n\n"
      "Starts the workers of this node and keeps them one job with those of the other nodes. Every flag may "
      "also be set\n"
      "as PET_<NAME> or in the mtrun: section of --config; dashes and underscores are alike.\n",
      Settings("mtrun", OptionTable()).Help());
}

}  // namespace mtrun::launcher
