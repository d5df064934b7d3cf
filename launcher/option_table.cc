#include "launcher/option_table.h"

namespace mtrun::launcher {
namespace {

using Kind = SettingSpec::Kind;

constexpr char kNodes[] = "Nodes and workers";
constexpr char kMeeting[] = "Rendezvous";
constexpr char kFaults[] = "Failures and stopping";
constexpr char kOutput[] = "Output";
constexpr char kProgram[] = "Program";
constexpr char kAsking[] = "Questions to mtrun";
constexpr char kTorchrun[] = "Accepted for torchrun's sake";

void AddNodes(std::vector<SettingSpec>* table) {
  table->push_back({.name = "nnodes",
                    .default_text = "1",
                    .help = "Nodes: N, or MIN:MAX for an elastic job.",
                    .group = kNodes,
                    .hints = {"num_nodes", "num_machines", "machines", "hosts"}});
  table->push_back({.name = "nproc_per_node",
                    .default_text = "1",
                    .help = "Workers on this node: N, auto, cpu or gpu.",
                    .group = kNodes,
                    .hints = {"np", "n", "num_proc", "num_processes", "num_workers", "workers", "gpus",
                              "num_gpus", "ngpus", "devices", "ntasks", "ntasks_per_node", "ppn"}});
  table->push_back({.name = "node_rank",
                    .kind = Kind::kInt,
                    .help = "This node's place in the order of nodes.",
                    .group = kNodes,
                    .min = 0,
                    .hints = {"rank", "machine_rank", "group_rank"}});
  table->push_back({.name = "role",
                    .default_text = "default",
                    .help = "Name of this node's workers: ROLE_NAME, and the prefix of their lines.",
                    .group = kNodes});
  table->push_back({.name = "virtual_local_rank",
                    .kind = Kind::kBool,
                    .default_text = "false",
                    .help = "Each worker sees one GPU, its own, as number 0: LOCAL_RANK is 0 for all.",
                    .group = kNodes});
  table->push_back(
      {.name = "numa_binding",
       .help = "Ties workers to the processors near their GPU, or (without GPUs) to a fair share.",
       .group = kNodes,
       .choices = {"node", "socket", "exclusive", "core-complex"}});
}

void AddMeeting(std::vector<SettingSpec>* table) {
  table->push_back(
      {.name = "rdzv_endpoint",
       .help = "HOST[:PORT] where the nodes meet, the same on all; port 29400.",
       .group = kMeeting,
       .hints = {"endpoint", "host", "coordinator", "coordinator_address", "head", "head_node"}});
  table->push_back({.name = "rdzv_id",
                    .help = "Name of the job, the same on all nodes.",
                    .group = kMeeting,
                    .hints = {"job_id", "job", "id", "run_id", "name"}});
  table->push_back(
      {.name = "rdzv_backend",
       .default_text = "mtrun",
       .help = "mtrun, c10d, etcd, etcd-v2: mtrun's own service; static: that with exactly MAX nodes.",
       .group = kMeeting});
  table->push_back(
      {.name = "rdzv_conf",
       .help =
           "KEY=VALUE,...: join_timeout, last_call_timeout, keep_alive_interval, keep_alive_max_attempt, "
           "read_timeout, reconnect_grace, reconnect_timeout, min_nodes_timeout, fence_timeout (seconds), "
           "takeover (majority, any), is_host, hold_port.",
       .group = kMeeting});
  table->push_back({.name = "standalone",
                    .kind = Kind::kBool,
                    .default_text = "false",
                    .help = "One node, a rendezvous of its own on a free port.",
                    .group = kMeeting});
  table->push_back({.name = "master_addr",
                    .help = "With --master_port: the endpoint when --rdzv_endpoint is not given.",
                    .group = kMeeting,
                    .hints = {"main_process_ip"}});
  table->push_back({.name = "master_port",
                    .kind = Kind::kInt,
                    .help = "See --master_addr; 29500. With one node: its MASTER_PORT.",
                    .group = kMeeting,
                    .min = 0,
                    .max = 65535,
                    .hints = {"port", "main_process_port"}});
  table->push_back({.name = "local_addr",
                    .help = "Address at which the other nodes reach this one.",
                    .group = kMeeting,
                    .hints = {"address", "bind", "interface"}});
  table->push_back({.name = "insecure",
                    .kind = Kind::kBool,
                    .default_text = "false",
                    .help = "Meet without the shared secret and TLS, even beyond this machine.",
                    .group = kMeeting,
                    .yields = true});
}

void AddFaults(std::vector<SettingSpec>* table) {
  table->push_back(
      {.name = "max_restarts",
       .kind = Kind::kInt,
       .default_text = "0",
       .help = "Worker failures that the whole job survives (with --trainer 10 when not given, and every "
               "100 steps give one back).",
       .group = kFaults,
       .min = 0,
       .hints = {"retries", "max_retries", "attempts"}});
  table->push_back(
      {.name = "shutdown_timeout",
       .kind = Kind::kDouble,
       .help = "Seconds from the polite signal to SIGKILL; else $TORCH_ELASTIC_SHUTDOWN_TIMEOUT, 30.",
       .group = kFaults,
       .min = 0,
       .hints = {"grace", "grace_period", "timeout"}});
  table->push_back(
      {.name = "hang_notice",
       .kind = Kind::kDouble,
       .default_text = "30",
       .help =
           "Name a trainer's worker that stands still for so many seconds while the others wait; 0: never.",
       .group = kFaults,
       .min = 0});
  table->push_back(
      {.name = "hang_timeout",
       .kind = Kind::kDouble,
       .help = "Kill and replace such a worker after so many seconds; 0: never [600 with --trainer, else 0].",
       .group = kFaults,
       .min = 0,
       .hints = {"watchdog", "stall_timeout", "hang"}});
  table->push_back(
      {.name = "preempt_file",
       .help = "When this file appears the node leaves as on SIGTERM; it must not be there at the start.",
       .group = kFaults,
       .hints = {"preemption_file", "preempt"}});
  table->push_back({.name = "signals_to_handle",
                    .help = "Signals that stop the job, passed on to the workers "
                            "[SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1].",
                    .group = kFaults});
  table->push_back({.name = "signals_to_forward",
                    .help = "Signals that are passed on to the workers and stop nothing: SIGUSR1,SIGUSR2.",
                    .group = kFaults,
                    .yields = true});
}

void AddOutput(std::vector<SettingSpec>* table) {
  table->push_back({.name = "log_dir",
                    .help = "Folder for the workers' output; /dev/null for no files [a temporary one].",
                    .group = kOutput,
                    .hints = {"logs", "output", "output_dir"}});
  table->push_back({.name = "redirects",
                    .help = "Streams for files only: 0 none, 1 stdout, 2 stderr, 3 both, or RANK:N,...",
                    .group = kOutput,
                    .letter = 'r'});
  table->push_back({.name = "tee",
                    .help = "Streams for files and the console; as --redirects.",
                    .group = kOutput,
                    .letter = 't'});
  table->push_back({.name = "local_ranks_filter",
                    .help = "Only these local ranks (0,1,...) show on the console; files get everything.",
                    .group = kOutput});
  table->push_back({.name = "log_line_prefix_template",
                    .help = "In front of each console line: ${role_name} ${local_rank} ${rank} ${hostname} "
                            "[[${role_name}${local_rank}]:].",
                    .group = kOutput});
  table->push_back(
      {.name = "duplicate_stdout_filters",
       .help = "Lines with any of these texts (A,B; ,, is a comma) also go to filtered_stdout.log.",
       .group = kOutput});
  table->push_back({.name = "duplicate_stderr_filters",
                    .help = "The same for standard error and filtered_stderr.log.",
                    .group = kOutput});
  table->push_back({.name = "event_log",
                    .help = "File that gets what happens, one JSON object a line.",
                    .group = kOutput,
                    .yields = true});
}

void AddProgram(std::vector<SettingSpec>* table) {
  table->push_back({.name = "trainer",
                    .help = "Runs the training program NAME; what follows belongs to it.",
                    .group = kProgram,
                    .yields = true});
  table->push_back({.name = "config",
                    .help = "YAML file: section mtrun: here, the trainer's section there.",
                    .group = kProgram,
                    .yields = true});
  table->push_back({.name = "module",
                    .kind = Kind::kBool,
                    .default_text = "false",
                    .help = "PROGRAM is a Python module.",
                    .group = kProgram,
                    .letter = 'm'});
  table->push_back({.name = "no_python",
                    .kind = Kind::kBool,
                    .default_text = "false",
                    .help = "Execute PROGRAM itself, whatever its name.",
                    .group = kProgram});
  table->push_back({.name = "run_path",
                    .kind = Kind::kBool,
                    .default_text = "false",
                    .help = "PROGRAM is a Python script, whatever its name.",
                    .group = kProgram});
}

void AddAsking(std::vector<SettingSpec>* table) {
  table->push_back(
      {.name = "status",
       .help = "HOST:PORT: prints which jobs and nodes are there, their generation and restarts.",
       .group = kAsking,
       .yields = true});
  table->push_back({.name = "json",
                    .kind = Kind::kBool,
                    .default_text = "false",
                    .help = "With --status: as JSON.",
                    .group = kAsking,
                    .yields = true});
  table->push_back({.name = "help",
                    .kind = Kind::kBool,
                    .default_text = "false",
                    .help = "Prints this.",
                    .group = kAsking,
                    .letter = 'h'});
  table->push_back({.name = "version",
                    .kind = Kind::kBool,
                    .default_text = "false",
                    .help = "Prints the version.",
                    .group = kAsking,
                    .yields = true});
  table->push_back({.name = "print_completion",
                    .help = "Prints the shell's completion: mtrun --print_completion bash.",
                    .group = kAsking,
                    .choices = {"bash", "zsh"}});
}

void AddTorchrun(std::vector<SettingSpec>* table) {
  table->push_back({.name = "monitor_interval",
                    .kind = Kind::kDouble,
                    .help = "No effect: a worker's death is noticed at once.",
                    .group = kTorchrun,
                    .min = 0});
  table->push_back({.name = "start_method",
                    .help = "No effect: workers are programs of their own.",
                    .group = kTorchrun,
                    .choices = {"spawn", "fork", "forkserver"}});
  table->push_back({.name = "exit_barrier_timeout",
                    .kind = Kind::kDouble,
                    .help = "No effect: there is no barrier, all leave when the job is over.",
                    .group = kTorchrun,
                    .min = 0});
  table->push_back({.name = "event_log_handler",
                    .help = "No effect: --event_log FILE records events.",
                    .group = kTorchrun,
                    .choices = {"null", "console", "dynamic_rendezvous"}});
  table->push_back({.name = "logs_specs",
                    .help = "Only \"default\": others are Python classes.",
                    .group = kTorchrun,
                    .choices = {"default"}});
}

}  // namespace

std::vector<SettingSpec> OptionTable() {
  std::vector<SettingSpec> table;
  AddNodes(&table);
  AddMeeting(&table);
  AddFaults(&table);
  AddOutput(&table);
  AddProgram(&table);
  AddAsking(&table);
  AddTorchrun(&table);
  return table;
}

}  // namespace mtrun::launcher
