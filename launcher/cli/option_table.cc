#include "launcher/cli/option_table.h"

#include "absl/strings/str_cat.h"
#include "launcher/cli/options_reading.h"
#include "launcher/cli/rdzv_conf.h"
#include "rendezvous/fields.h"

namespace mtrun::launcher {
namespace {

using Kind = SettingSpec::Kind;

constexpr char kNodes[] = "Nodes and workers";
constexpr char kRendezvous[] = "Rendezvous";
constexpr char kFaults[] = "Failures and stopping";
constexpr char kOutput[] = "Output";
constexpr char kProgram[] = "Program";
constexpr char kTorchrun[] = "Accepted for torchrun's sake";

constexpr char kStreams[] = "0 1 2 3";

std::vector<Option> NodeOptions() {
  return {
      {{.name = "nnodes",
        .default_text = "1",
        .help = "Nodes: N, or MIN:MAX for an elastic job.",
        .group = kNodes,
        .hints = {"num_nodes", "num_machines", "machines"}},
       ReadNodes},
      {{.name = "nproc_per_node",
        .default_text = "1",
        .help = "Workers on this node: N, auto, cpu or gpu.",
        .group = kNodes,
        .hints = {"np", "n", "num_proc", "num_processes", "num_workers", "workers", "gpus", "num_gpus",
                  "ngpus", "devices", "ntasks", "ntasks_per_node", "ppn"}},
       ReadWorkers,
       "auto cpu gpu"},
      {{.name = "node_rank",
        .kind = Kind::kInt,
        .help = "This node's place in the order of nodes.",
        .group = kNodes,
        .min = 0,
        .max = rendezvous::kMaxNodes - 1,
        .hints = {"rank", "machine_rank", "group_rank"}},
       &Options::node_rank},
      {{.name = "role",
        .default_text = "default",
        .help = "Name of this node's workers: ROLE_NAME, and the prefix of their lines.",
        .group = kNodes},
       ReadRole},
      {{.name = "virtual_local_rank",
        .kind = Kind::kBool,
        .default_text = "false",
        .help = "Each worker sees one GPU, its own, as number 0: LOCAL_RANK is 0 for all.",
        .group = kNodes},
       ReadVirtualRank},
      {{.name = "numa_binding",
        .help = "Ties workers to the processors near their GPU, or (without GPUs) to a fair share.",
        .group = kNodes,
        .choices = {"node", "socket", "exclusive", "core-complex"}},
       &Options::numa_binding},
  };
}

std::vector<Option> RendezvousOptions() {
  return {
      {{.name = "rdzv_endpoint",
        .help = "HOST[:PORT] of the rendezvous, the same on all nodes; port 29400.",
        .group = kRendezvous,
        .hints = {"endpoint", "host", "coordinator", "coordinator_address", "head", "head_node"}},
       ReadRendezvous},
      {{.name = "rdzv_id",
        .help = "Name of the job, the same on all nodes.",
        .group = kRendezvous,
        .hints = {"job_id", "job", "id", "run_id", "name"}},
       PartOf{"rdzv_endpoint"}},
      {{.name = "rdzv_backend",
        .default_text = "mtrun",
        .help = "mtrun, c10d, etcd, etcd-v2: mtrun's own service; static: that with exactly MAX nodes.",
        .group = kRendezvous},
       PartOf{"rdzv_endpoint"},
       "mtrun c10d static etcd etcd-v2"},
      {{.name = "rdzv_conf", .help = ConfHelp(), .group = kRendezvous}, PartOf{"rdzv_endpoint"}},
      {{.name = "standalone",
        .kind = Kind::kBool,
        .default_text = "false",
        .help = "One node, a rendezvous of its own on a free port.",
        .group = kRendezvous},
       PartOf{"rdzv_endpoint"}},
      {{.name = "master_addr",
        .help = "With --master_port: the endpoint when --rdzv_endpoint is not given.",
        .group = kRendezvous,
        .hints = {"main_process_ip"}},
       PartOf{"rdzv_endpoint"}},
      {{.name = "master_port",
        .kind = Kind::kInt,
        .help = "See --master_addr; 29500. With one node: its MASTER_PORT.",
        .group = kRendezvous,
        .min = 0,
        .max = 65535,
        .hints = {"port", "main_process_port"}},
       PartOf{"rdzv_endpoint"}},
  };
}

/// Who serves MASTER_PORT.
std::vector<Option> StoreOptions() {
  return {
      {{.name = "store",
        .default_text = "agent",
        .help = "PyTorch's TCPStore on MASTER_PORT: agent: node 0's mtrun serves it, as torchrun; rank0: the "
                "worker of rank 0 listens there. The same on all nodes.",
        .group = kRendezvous,
        .choices = {"agent", "rank0"},
        .yields = true},
       ReadStore},
  };
}

/// Of this node alone: where it is reached, and by whom.
std::vector<Option> ReachOptions() {
  return {
      {{.name = "local_addr",
        .help =
            "Where the other nodes reach this one: an address, an interface (eth0), a network (10.0.0.0/8) "
            "or auto. NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME follow, unless they are set.",
        .group = kRendezvous,
        .hints = {"address", "bind", "interface"}},
       &Options::local_addr},
      {{.name = "port_range",
        .help = "Ports LOW-HIGH on which this node's mtrun and its trainers listen, beside the endpoint's; "
                "any free ones when not given.",
        .group = kRendezvous,
        .hints = {"ports", "port_min", "port_max"},
        .yields = true},
       ReadPortRange},
      {{.name = "insecure",
        .kind = Kind::kBool,
        .default_text = "false",
        .help = "Rendezvous without the shared secret and TLS: whoever reaches it may join, read and stop "
                "the job.",
        .group = kRendezvous,
        .yields = true},
       &Options::insecure},
      {{.name = "token_file",
        .help =
            "File with the cluster's token, instead of the variable MTRUN_TOKEN or ~/.mtrun/token (made at "
            "first use).",
        .group = kRendezvous,
        .yields = true},
       &Options::token_file},
  };
}

std::vector<Option> FaultOptions() {
  return {
      {{.name = "max_restarts",
        .kind = Kind::kInt,
        .default_text = "0",
        .help = "Worker failures that the whole job survives (with --trainer 10 when not given, and every "
                "100 steps give one back).",
        .group = kFaults,
        .min = 0,
        .max = rendezvous::kMaxRestarts,
        .hints = {"retries", "max_retries", "attempts"}},
       ReadRestarts},
      {{.name = "shutdown_timeout",
        .kind = Kind::kDouble,
        .help = "Seconds from the first signal to SIGKILL; else $TORCH_ELASTIC_SHUTDOWN_TIMEOUT, 30.",
        .group = kFaults,
        .min = 0,
        .max = kMostSeconds,
        .hints = {"grace", "grace_period", "timeout"}},
       ReadShutdownTimeout},
      {{.name = "hang_notice",
        .kind = Kind::kDouble,
        .default_text = "30",
        .help = "Report a trainer's worker that makes no progress for so many seconds and waits neither for "
                "others nor for data; 0: never.",
        .group = kFaults,
        .min = 0,
        .max = kMostSeconds},
       ReadHangNotice},
      {{.name = "hang_timeout",
        .kind = Kind::kDouble,
        .help = "Kill and replace such a worker after so many seconds; 0: never [600 with --trainer, else "
                "0].",
        .group = kFaults,
        .min = 0,
        .max = kMostSeconds,
        .hints = {"watchdog", "stall_timeout", "hang"}},
       ReadHangTimeout},
      {{.name = "preempt_file",
        .help = "When this file appears the node leaves as on SIGTERM; it must not be there at the start.",
        .group = kFaults,
        .hints = {"preemption_file", "preempt"}},
       &Options::preempt_file,
       kPath},
      {{.name = "signals_to_handle",
        .help = "Signals that stop the job, passed on to the workers "
                "[SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1].",
        .group = kFaults},
       ReadSignals},
      {{.name = "signals_to_forward",
        .help = "Signals that are passed on to the workers and stop nothing: SIGUSR1,SIGUSR2.",
        .group = kFaults,
        .yields = true},
       PartOf{"signals_to_handle"}},
  };
}

std::vector<Option> OutputOptions() {
  return {
      {{.name = "log_dir",
        .help = "Folder for the workers' output; /dev/null for no files [one in ~/.local/state/mtrun, which "
                "keeps the newest 20 runs].",
        .group = kOutput,
        .hints = {"output", "output_dir"}},
       &Options::log_dir,
       kPath},
      {{.name = "redirects",
        .help = "Streams for files only: 0 none, 1 stdout, 2 stderr, 3 both, or RANK:N,...",
        .group = kOutput,
        .letter = 'r'},
       &Options::redirects,
       kStreams},
      {{.name = "tee",
        .help = "Streams for files and the console; as --redirects.",
        .group = kOutput,
        .letter = 't'},
       &Options::tee,
       kStreams},
      {{.name = "local_ranks_filter",
        .help = "Only these local ranks (0,1,...) show on the console; files get everything.",
        .group = kOutput},
       &Options::console_ranks},
      {{.name = "log_line_prefix_template",
        .help = "In front of each console line: ${role_name} ${local_rank} ${rank} ${hostname} "
                "[[${role_name}${local_rank}]:].",
        .group = kOutput},
       ReadPrefix},
      {{.name = "console",
        .help =
            "Lines on the console: prefix, or plain, without one. What a program's only worker prints passes "
            "unchanged, on a terminal to a terminal, unless prefix, --tee or a template asks for lines "
            "[prefix; for a program with one worker plain].",
        .group = kOutput,
        .choices = {"prefix", "plain"},
        .yields = true},
       &Options::console_format},
      {{.name = "duplicate_stdout_filters",
        .help = "Lines with any of these texts (A,B; ,, is a comma) also go to filtered_stdout.log.",
        .group = kOutput},
       &Options::out_filters},
      {{.name = "duplicate_stderr_filters",
        .help = "The same for standard error and filtered_stderr.log.",
        .group = kOutput},
       &Options::err_filters},
      {{.name = "http",
        .help = "HOST:PORT: serves a live page of the job there; 127.0.0.1:8080 for this machine alone.",
        .group = kOutput,
        .yields = true},
       &Options::http},
      {{.name = "event_log",
        .help = "File that gets what happens, one JSON object a line.",
        .group = kOutput,
        .yields = true},
       &Options::event_log,
       kPath},
  };
}

std::vector<Option> ProgramOptions() {
  return {
      {{.name = "trainer",
        .help = "Runs the training program NAME; what follows belongs to it.",
        .group = kProgram,
        .yields = true},
       ReadEntry},
      {{.name = "config",
        .help = "YAML file: section mtrun: here, the trainer's section there.",
        .group = kProgram,
        .yields = true},
       PartOf{"trainer"},
       kPath},
      {{.name = "module",
        .kind = Kind::kBool,
        .default_text = "false",
        .help = "PROGRAM is a Python module.",
        .group = kProgram,
        .letter = 'm'},
       PartOf{"trainer"}},
      {{.name = "no_python",
        .kind = Kind::kBool,
        .default_text = "false",
        .help = "Execute PROGRAM itself, whatever its name.",
        .group = kProgram},
       PartOf{"trainer"}},
      {{.name = "run_path",
        .kind = Kind::kBool,
        .default_text = "false",
        .help = "PROGRAM is a Python script, whatever its name.",
        .group = kProgram},
       PartOf{"trainer"}},
  };
}

std::vector<Option> WarmOptions() {
  return {
      {{.name = "warm_python",
        .kind = Kind::kBool,
        .default_text = "false",
        .help =
            "Keeps an interpreter that has imported --preload; once it is ready workers are forked from it, "
            "which spares a restart the imports.",
        .group = kProgram,
        .yields = true},
       &Options::warm_python},
      {{.name = "preload",
        .default_text = "torch",
        .help = "Modules that --warm_python imports: A,B.",
        .group = kProgram,
        .yields = true},
       &Options::preload},
  };
}

std::vector<Option> OptionsWithoutEffect() {
  return {
      {{.name = "monitor_interval", .kind = Kind::kDouble, .group = kTorchrun, .min = 0},
       NoEffect{"a worker's death is noticed at once"}},
      {{.name = "start_method", .group = kTorchrun, .choices = {"spawn", "fork", "forkserver"}},
       NoEffect{"workers are programs of their own"}},
      {{.name = "exit_barrier_timeout", .kind = Kind::kDouble, .group = kTorchrun, .min = 0},
       NoEffect{"there is no barrier, all leave when the job is over"}},
      {{.name = "event_log_handler",
        .group = kTorchrun,
        .choices = {"null", "console", "dynamic_rendezvous"}},
       NoEffect{"--event_log FILE records events"}},
      {{.name = "logs_specs",
        .help = "Only \"default\": others are Python classes.",
        .group = kTorchrun,
        .choices = {"default"}},
       NoEffect{"mtrun does that anyway"}},
  };
}

}  // namespace

const std::vector<Option>& OptionRows() {
  static const std::vector<Option> rows = [] {
    std::vector<Option> all;
    for (const auto& group : {NodeOptions(), SshRows(), RendezvousOptions(), StoreOptions(), ReachOptions(),
                              FaultOptions(), OutputOptions(), ProgramOptions(), WarmOptions(),
                              StatusQuestions(), ControlQuestions(), OwnQuestions(), OptionsWithoutEffect()})
      all.insert(all.end(), group.begin(), group.end());
    for (Option& option : all) {
      const auto* without = std::get_if<NoEffect>(&option.target);
      if (without != nullptr && option.spec.help.empty())
        option.spec.help = absl::StrCat("No effect: ", without->why, ".");
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
