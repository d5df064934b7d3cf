#include "launcher/workers/launch_plan.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/link_zone.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/processors.h"
#include "base/terminal.h"
#include "launcher/cli/machine.h"
#include "launcher/net/interfaces.h"
#include "launcher/workers/text_template.h"

namespace mtrun::launcher {
namespace {

/// Returns the PCI addresses of the GPUs in CUDA_VISIBLE_DEVICES; devices given by name count in their order.
std::vector<std::string> VisibleAddresses(const EnvironmentMap& environment) {
  const std::vector<std::string> all = GpuAddresses("");
  const std::vector<std::string> visible = VisibleGpus(static_cast<int>(all.size()), environment);
  std::vector<std::string> addresses;
  for (size_t i = 0; i < visible.size(); ++i) {
    const bool number = visible[i].find_first_not_of("0123456789") == std::string::npos;
    addresses.push_back(all[number ? static_cast<size_t>(std::stoi(visible[i])) : i]);
  }
  return addresses;
}

/// Bytes kept of each stream if no log files were requested.
constexpr size_t kMaxKeptLogBytes = 16 << 20;

constexpr char kOnAnyProcessor[] = "; the workers run on any processor";

}  // namespace

EnvironmentMap FlagVariables(const Options& options) {
  EnvironmentMap variables;
  // Trainers derive their global batch from the requested size, not from the number of workers that joined.
  variables["MTRUN_CONFIGURED_WORLD"] = absl::StrCat(options.job.max_nodes * options.workers);
  // Time limit for a trainer's last checkpoint.
  variables["MTRUN_SHUTDOWN_TIMEOUT"] = absl::StrCat(ToSeconds(options.shutdown_timeout));
  variables["TORCHELASTIC_USE_AGENT_STORE"] = options.agent_store() ? "True" : "False";
  if (!options.signals.stop_text.empty())
    variables["TORCHELASTIC_SIGNALS_TO_HANDLE"] = options.signals.stop_text;
  if (!options.port_range.any()) variables[kPortRangeVariable] = ToText(options.port_range);
  return variables;
}

LaunchPlan::LaunchPlan(const Options& options, const Program& program, LogFiles& log_files,
                       std::string socket, std::string timer_file, const KeptFiles& kept)
    : options_(options), program_(program), log_files_(log_files), kept_(kept) {
  node_.max_restarts = options.job.max_restarts;
  node_.flags = FlagVariables(options);
  node_.for_nccl = !options.local_addr.empty();
  node_.zone = LinkZone();
  node_.run_id = options.job.job_id;
  node_.socket = std::move(socket);
  node_.parent = CurrentEnvironment();
  node_.virtual_local_rank = options.virtual_local_rank;
  node_.timer_file = std::move(timer_file);
  node_.lease = kept.lease;
  node_.set_omp = NeedsOmpThreads(node_.parent, options.workers);
  if (node_.set_omp) {
    log::Info("OMP_NUM_THREADS is not set: each of the ", options.workers,
              " workers gets 1, so that together they do not overload this machine; set it to what suits the "
              "program");
  }
  if (!options.numa_binding.empty()) TieToProcessors();
}

void LaunchPlan::TieToProcessors() {
  const absl::StatusOr<Topology> topology =
      ReadTopology("", AllowedProcessors(), VisibleAddresses(node_.parent));
  if (!topology.ok()) {
    log::Warning(topology.status().message(), kOnAnyProcessor);
    return;
  }
  const std::optional<double> quota = ProcessorQuota();
  const std::string mode = ModeUnder(quota, *topology, options_.numa_binding, options_.workers);
  if (mode != options_.numa_binding) {
    log::Warning("--numa_binding ", options_.numa_binding, ": the control group's quota is the time of ",
                 *quota, " of ", topology->processors.size(),
                 " processors, which other programs may use, too",
                 mode.empty() ? kOnAnyProcessor : "; each worker gets all processors of a NUMA node");
  }
  if (mode.empty()) return;
  absl::StatusOr<std::vector<Binding>> bindings = BindWorkers(*topology, mode, options_.workers);
  if (!bindings.ok()) {
    log::Warning(bindings.status().message(), kOnAnyProcessor);
    return;
  }
  bindings_ = *std::move(bindings);
  const auto format = [](std::string* out, const Binding& binding) {
    absl::StrAppend(out, RangesText(binding.cpus));
  };
  log::Info("--numa_binding ", mode,
            ": processors of the workers: ", absl::StrJoin(bindings_, " | ", format));
}

WorkerLaunch LaunchPlan::For(const rendezvous::Assignment& assignment, size_t member, int local_rank) {
  WorkerLaunch launch;
  WorkerStreams& streams = launch.streams;
  absl::StatusOr<WorkerFiles> files =
      log_files_.ForWorker(assignment.restart_count, assignment.generation.number, local_rank);
  if (files.ok()) {
    streams.files = *std::move(files);
  } else {
    log::Warning("no log files for local rank ", local_rank, ": ", files.status().message());
  }
  if (!options_.keeps_logs) streams.files = WorkerFiles{"", "", streams.files.error, "", ""};
  ChooseInterface(assignment, assignment.members[member].address);
  const WorkerEnv worker = MakeWorkerEnv(assignment, member, local_rank, node_, streams.files.error);
  launch.spec = {program_.file, ArgumentsFor(program_, local_rank), MakeEnvironment(worker, node_)};
  for (const int fd : {kept_.lease, kept_.presence})
    if (fd >= 0) launch.spec.kept.push_back(fd);
  if (!bindings_.empty()) {
    const Binding& binding = bindings_[static_cast<size_t>(local_rank)];
    launch.spec.cpus = binding.cpus;
    launch.spec.memory_node = binding.memory_node;
  }
  streams.local_rank = local_rank;
  streams.prefix = FillTemplate(options_.ConsolePrefix(), {{"role_name", options_.role},
                                                           {"local_rank", absl::StrCat(local_rank)},
                                                           {"rank", absl::StrCat(worker.rank)},
                                                           {"hostname", HostName()}});
  streams.plan = options_.OutputOf(local_rank);
  streams.raw = options_.RawConsole();
  launch.spec.out_terminal = streams.raw && streams.plan.out && isatty(STDOUT_FILENO) == 1;
  launch.spec.err_terminal = streams.raw && streams.plan.err && isatty(STDERR_FILENO) == 1;
  if (options_.log_dir.empty()) streams.most_log_bytes = kMaxKeptLogBytes;
  streams.out_filters = options_.out_filters;
  streams.err_filters = options_.err_filters;
  launch.spec.environment.erase(kColumnsVariable);  // set by an outer mtrun
  streams.breaks_lines = !options_.entry.trainer.empty();
  if (streams.breaks_lines) ShowProgress(launch);
  return launch;
}

void LaunchPlan::ChooseInterface(const rendezvous::Assignment& assignment, const std::string& address) {
  if (options_.local_addr.empty() && !options_.hides_behind_name) return;
  if (std::exchange(looked_up_, assignment.generation) == assignment.generation) return;
  node_.interface = InterfaceOf(address, ListInterfaces());
  if (node_.interface.empty() || !options_.local_addr.empty() || std::exchange(said_interface_, true)) return;
  log::Info(
      "this node's own name does not lead to an address that others reach, so Gloo gets the interface of ",
      address);
}

/// If a trainer's output is shown on a terminal it updates a progress line there.
void LaunchPlan::ShowProgress(WorkerLaunch& launch) const {
  const int columns = TerminalSize::Of(STDOUT_FILENO).columns;
  const int room = columns - static_cast<int>(ColumnsOf(launch.streams.prefix));
  if (columns == 0 || room <= 0 || !launch.streams.plan.out) return;
  launch.spec.environment[kColumnsVariable] = absl::StrCat(room);
  launch.streams.thins_updates = true;
}

}  // namespace mtrun::launcher
