#include "launcher/cli/option_table.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/cli/options_reading.h"
#include "rendezvous/wire/fields.h"

namespace mtrun::launcher {
namespace {

using Kind = SettingSpec::Kind;

constexpr char kStreams[] = "0 1 2 3";

std::vector<Option> NodeOptions() {
  return {
      {{.name = "nnodes",
        .default_text = "1",
        .help = "Nodes of the job; MIN:MAX: an elastic job.",
        .value = "N|MIN:MAX",
        .common = true,
        .hints = {"num_nodes", "num_machines", "machines"}},
       ReadNodes},
      {{.name = "nproc_per_node",
        .default_text = "1",
        .help = "Workers on this node: N, one per GPU (gpu), one per processor (cpu), or gpu if there are "
                "GPUs and else cpu (auto).",
        .value = "N|auto|cpu|gpu",
        .common = true,
        .hints = {"np", "n", "num_proc", "num_processes", "num_workers", "workers", "gpus", "num_gpus",
                  "ngpus", "devices", "ntasks", "ntasks_per_node", "ppn"}},
       ReadWorkers,
       "auto cpu gpu"},
      {{.name = "node_rank",
        .kind = Kind::kInt,
        .help = "Place of this node in the order of nodes.",
        .min = 0,
        .max = rendezvous::kMaxNodes - 1,
        .hints = {"rank", "machine_rank", "group_rank"}},
       &Options::node_rank},
      {{.name = "role",
        .default_text = "default",
        .help = "Name of this node's workers: ROLE_NAME, and the prefix of their lines.",
        .value = "NAME"},
       ReadRole},
      {{.name = "virtual_local_rank",
        .kind = Kind::kBool,
        .help = "Show each worker only its own GPU, as number 0; LOCAL_RANK is 0 for all."},
       ReadVirtualRank},
      {{.name = "numa_binding",
        .help = "Bind workers to the processors near their GPU, or without GPUs to a fair share.",
        .choices = {"node", "socket", "exclusive", "core-complex"}},
       &Options::numa_binding},
  };
}

std::vector<Option> FaultOptions() {
  return {
      {{.name = "max_restarts",
        .kind = Kind::kInt,
        .default_text = "0",
        .help = "Worker failures that the whole job survives. With --trainer every 100 steps give one back.",
        .otherwise = "0, with --trainer 10",
        .common = true,
        .min = 0,
        .max = rendezvous::kMaxRestarts,
        .hints = {"retries", "max_retries", "attempts"}},
       ReadRestarts},
      {{.name = "shutdown_timeout",
        .kind = Kind::kDouble,
        .help = "Time from the first signal to SIGKILL; at most 0.8 below Open MPI.",
        .value = "SECONDS",
        .otherwise = "$TORCH_ELASTIC_SHUTDOWN_TIMEOUT, else 30",
        .min = 0,
        .max = kMaxSeconds,
        .hints = {"grace", "grace_period", "timeout"}},
       ReadShutdownTimeout},
      {{.name = "hang_notice",
        .kind = Kind::kDouble,
        .default_text = "30",
        .help = "Report a trainer's worker that makes no progress for this long and waits neither for others "
                "nor for data; 0: never.",
        .value = "SECONDS",
        .min = 0,
        .max = kMaxSeconds},
       ReadHangNotice},
      {{.name = "hang_timeout",
        .kind = Kind::kDouble,
        .help = "Kill and replace such a worker after this long; 0: never.",
        .value = "SECONDS",
        .otherwise = "600 with --trainer, else 0",
        .min = 0,
        .max = kMaxSeconds,
        .hints = {"watchdog", "stall_timeout", "hang"}},
       ReadHangTimeout},
  };
}

std::vector<Option> StopOptions() {
  return {
      {{.name = "preempt_file",
        .help =
            "File whose appearance makes the node leave, as SIGTERM does; it must not exist at the start.",
        .value = "FILE",
        .hints = {"preemption_file", "preempt"}},
       &Options::preempt_file,
       kPath},
      {{.name = "signals_to_handle",
        .help = "Signals that stop the job; they are passed on to the workers.",
        .value = "SIGNAL,...",
        .otherwise = "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1"},
       ReadSignals},
      {{.name = "signals_to_forward",
        .help = "Signals that are passed on to the workers and stop nothing: SIGUSR1,SIGUSR2.",
        .value = "SIGNAL,...",
        .yields = true},
       PartOf{"signals_to_handle"}},
  };
}

std::vector<Option> OutputOptions() {
  return {
      {{.name = "log_dir",
        .help = "Folder for the workers' output; /dev/null: no files.",
        .value = "FOLDER",
        .otherwise = "in ~/.local/state/mtrun, which keeps the newest 20 runs",
        .common = true,
        .hints = {"output", "output_dir"}},
       &Options::log_dir,
       kPath},
      {{.name = "redirects",
        .help = "Streams that go to files only: 0 none, 1 stdout, 2 stderr, 3 both; or for each local rank, "
                "RANK:N,...",
        .value = "STREAMS",
        .letter = 'r'},
       &Options::redirects,
       kStreams},
      {{.name = "tee",
        .help = "Streams that go to files and to the console, written as for --redirects.",
        .value = "STREAMS",
        .letter = 't'},
       &Options::tee,
       kStreams},
      {{.name = "local_ranks_filter",
        .help = "Local ranks that the console shows: 0,1,...; files get everything.",
        .value = "RANKS",
        .otherwise = "all"},
       &Options::console_ranks},
      {{.name = "log_line_prefix_template",
        .help = "Prefix of each console line, made of ${role_name} ${local_rank} ${rank} ${hostname}.",
        .value = "TEXT",
        .otherwise = "[${role_name}${local_rank}]:"},
       ReadPrefix},
      {{.name = "console",
        .help = "Form of the console's lines: prefix, or plain, without one. The output of a program's only "
                "worker passes unchanged, on a terminal to a terminal, unless prefix, --tee or a template "
                "asks for lines.",
        .otherwise = "prefix; plain for a program with one worker",
        .choices = {"prefix", "plain"},
        .yields = true},
       &Options::console_format},
  };
}

std::vector<Option> CopyOptions() {
  return {
      {{.name = "duplicate_stdout_filters",
        .help = "Copy lines with any of these texts to filtered_stdout.log, too; ,, is a comma.",
        .value = "TEXT,..."},
       &Options::out_filters},
      {{.name = "duplicate_stderr_filters",
        .help = "Do the same for standard error, to filtered_stderr.log.",
        .value = "TEXT,..."},
       &Options::err_filters},
      {{.name = "http",
        .help =
            "Address at which to serve a live page of the job; a PORT alone (8080) is one of 127.0.0.1, for "
            "this machine.",
        .value = "HOST:PORT",
        .yields = true},
       ReadPage},
      {{.name = "event_log",
        .help = "File for events, one JSON object a line.",
        .value = "FILE",
        .yields = true},
       &Options::event_log,
       kPath},
  };
}

std::vector<Option> ProgramOptions() {
  return {
      {{.name = "trainer",
        .help = "Run the training program NAME; the arguments after it are its own. list: show all of them.",
        .value = "NAME",
        .common = true,
        .yields = true},
       ReadEntry},
      {{.name = "config",
        .help = "YAML file; mtrun reads its section mtrun, a trainer its own.",
        .value = "FILE",
        .common = true,
        .yields = true},
       PartOf{"trainer"},
       kPath},
      {{.name = "module",
        .kind = Kind::kBool,
        .help = "PROGRAM is a Python module.",
        .common = true,
        .letter = 'm'},
       PartOf{"trainer"}},
      {{.name = "no_python", .kind = Kind::kBool, .help = "Execute PROGRAM itself, whatever its name."},
       PartOf{"trainer"}},
      {{.name = "run_path",
        .kind = Kind::kBool,
        .help = "Run PROGRAM as a Python script, whatever its name."},
       PartOf{"trainer"}},
  };
}

std::vector<Option> WarmOptions() {
  return {
      {{.name = "warm_python",
        .kind = Kind::kBool,
        .help = "Keep an interpreter that has imported --preload, and fork restarted workers from it, which "
                "saves them the imports.",
        .yields = true},
       &Options::warm_python},
      {{.name = "preload",
        .default_text = "torch",
        .help = "Modules that --warm_python imports.",
        .value = "MODULE,...",
        .yields = true},
       &Options::preload},
  };
}

std::vector<Option> OptionsWithoutEffect() {
  return {
      {{.name = "monitor_interval", .kind = Kind::kDouble, .min = 0},
       NoEffect{"a worker's death is noticed at once"}},
      {{.name = "start_method", .choices = {"spawn", "fork", "forkserver"}},
       NoEffect{"workers are programs of their own"}},
      {{.name = "exit_barrier_timeout", .kind = Kind::kDouble, .min = 0},
       NoEffect{"there is no barrier, all leave when the job is over"}},
      {{.name = "event_log_handler", .choices = {"null", "console", "dynamic_rendezvous"}},
       NoEffect{"--event_log FILE records events"}},
      {{.name = "logs_specs", .help = "Only \"default\": others are Python classes.", .choices = {"default"}},
       NoEffect{"mtrun does that anyway"}},
  };
}

}  // namespace

const std::vector<Option>& OptionRows() {
  static const std::vector<Option> rows = [] {
    constexpr char kRendezvous[] = "Rendezvous", kFaults[] = "Failures and stopping", kOutput[] = "Output",
                   kProgram[] = "Program";
    std::pair<const char*, std::vector<Option>> groups[] = {
        {"Nodes and workers", NodeOptions()},
        {"Other machines over ssh", SshRows()},
        {kRendezvous, RendezvousRows()},
        {kRendezvous, ReachRows()},
        {kFaults, FaultOptions()},
        {kFaults, StopOptions()},
        {kOutput, OutputOptions()},
        {kOutput, CopyOptions()},
        {kProgram, ProgramOptions()},
        {kProgram, WarmOptions()},
        {"Questions to a running job", StatusQuestions()},
        {"Requests to a running job", ControlQuestions()},
        {"About mtrun and this machine", OwnQuestions()},
        {"Accepted for torchrun's sake", OptionsWithoutEffect()},
    };
    std::vector<Option> all;
    for (auto& [group, options] : groups) {
      for (Option& option : options) {
        SettingSpec& spec = option.spec;
        spec.group = group;
        if (spec.kind == Kind::kBool) spec.default_text = "false";
        if (const auto* without = std::get_if<NoEffect>(&option.target);
            without != nullptr && spec.help.empty())
          spec.help = absl::StrCat("No effect: ", without->why, ".");
        all.push_back(std::move(option));
      }
    }
    return all;
  }();
  return rows;
}

std::vector<SettingSpec> OptionTable() {
  std::vector<SettingSpec> table;
  for (const Option& option : OptionRows()) table.push_back(option.spec);
  return table;
}

}  // namespace mtrun::launcher
