// Options about nodes, workers and their program.
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "launcher/cli/options_reading.h"
#include "launcher/core/worker_environment.h"
#include "rendezvous/wire/fields.h"
#include "rendezvous/wire/job_settings.h"

namespace mtrun::launcher {

absl::Status ReadNodes(const OptionContext& context, Options* options) {
  const absl::Status wrong =
      NotAllowed(context.settings, "nnodes",
                 absl::StrCat("N or MIN:MAX with 1 <= MIN <= MAX <= ", rendezvous::kMaxNodes));
  const std::vector<std::string> parts = absl::StrSplit(context.settings.Text("nnodes"), ':');
  if (parts.size() > 2) return wrong;
  rendezvous::JobSettings& job = options->job;
  if (!absl::SimpleAtoi(parts.front(), &job.min_nodes) || !absl::SimpleAtoi(parts.back(), &job.max_nodes))
    return wrong;
  const bool right =
      job.min_nodes >= 1 && job.min_nodes <= job.max_nodes && job.max_nodes <= rendezvous::kMaxNodes;
  return right ? absl::OkStatus() : wrong;
}

absl::Status ReadWorkers(const OptionContext& context, Options* options) {
  const auto& [name, settings, environment, machine, rest] = context;
  const std::string text = settings.Text(name);
  const absl::Status wrong =
      NotAllowed(settings, name,
                 absl::StrCat("a number from 1 to ", rendezvous::kMaxWorkersPerNode, ", auto, cpu or gpu"));
  if (text == "cpu" || (text == "auto" && machine.gpus == 0)) {
    options->workers = machine.cpus;
  } else if (text == "gpu" || text == "auto") {
    options->workers = machine.gpus;
    if (machine.gpus == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(Named(settings, name),
                       ": \"gpu\" needs an NVIDIA GPU and none is visible here; use N, auto or cpu"));
    }
  } else if (text == "xpu" || text == "hpu" || text == "mps" || text == "privateuseone") {
    return NotAllowed(
        settings, name,
        "a number, auto, cpu or gpu (only PyTorch itself can count such devices: give their number)");
  } else if (!absl::SimpleAtoi(text, &options->workers) || options->workers < 1) {
    return wrong;
  }
  return options->workers <= rendezvous::kMaxWorkersPerNode ? absl::OkStatus() : wrong;
}

/// Reads the role; workers of a trainer are named after it by default.
absl::Status ReadRole(const OptionContext& context, Options* options) {
  const Settings& settings = context.settings;
  const bool named_after = settings.SourceOf("role") == SettingSource::kDefault && RunsTrainer(settings);
  options->role = settings.Text(named_after ? "trainer" : "role");
  return absl::OkStatus();
}

absl::Status ReadVirtualRank(const OptionContext& context, Options* options) {
  options->virtual_local_rank = context.settings.Bool("virtual_local_rank");
  if (!options->virtual_local_rank || !DeviceOf(context.environment, options->workers - 1).empty())
    return absl::OkStatus();
  const std::string devices = DevicesVariable(context.environment);
  return absl::InvalidArgumentError(absl::StrCat(
      Named(context.settings, "virtual_local_rank"), " gives each of the ", options->workers,
      " workers a device of its own, but ", devices, " is \"", context.environment.at(devices), "\""));
}

absl::Status ReadEntry(const OptionContext& context, Options* options) {
  const Settings& settings = context.settings;
  EntryPoint& entry = options->entry;
  entry.trainer = settings.Text("trainer");
  entry.module = settings.Bool("module");
  entry.no_python = settings.Bool("no_python");
  entry.run_path = settings.Bool("run_path");
  if (entry.run_path) entry.no_python = false;
  entry.words = context.rest;
  if (entry.module && entry.no_python)
    return absl::InvalidArgumentError("--module and --no_python exclude each other");
  if (entry.trainer.empty()) {
    return !entry.words.empty()
               ? absl::OkStatus()
               : absl::InvalidArgumentError(
                     "nothing to run: give a program and its arguments, or --trainer NAME (see --help)");
  }
  if (entry.module || entry.no_python || entry.run_path || settings.Bool("virtual_local_rank")) {
    return absl::InvalidArgumentError(
        "--trainer names a program of mtrun's own; --module, --no_python, --run_path and "
        "--virtual_local_rank cannot be combined with it");
  }
  options->warm_up = true;
  // One file serves both; a --config among the trainer's own flags comes later and takes precedence.
  if (settings.IsSet("config"))
    entry.words.insert(entry.words.begin(), {"--config", settings.Text("config")});
  return absl::OkStatus();
}

}  // namespace mtrun::launcher
