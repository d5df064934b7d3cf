#include "launcher/cli/slurm_step.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/endpoint.h"
#include "base/status_macros.h"
#include "launcher/cli/hostlist.h"

namespace mtrun::launcher {
namespace {

// Below the ports that the kernel gives away by itself, apart from the trainers' under srun alone.
constexpr int64_t kFirstPort = 15000, kPorts = 5000;

std::string SlurmVariable(const EnvironmentMap& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

absl::StatusOr<int64_t> Number(const EnvironmentMap& environment, const std::string& name) {
  int64_t number = 0;
  const std::string text = SlurmVariable(environment, name);
  if (absl::SimpleAtoi(text, &number) && number >= 0) return number;
  return absl::InvalidArgumentError(absl::StrCat(
      "in a Slurm step: ", name, text.empty() ? " is missing" : absl::StrCat(" is \"", text, "\", no number"),
      "; give --rdzv_endpoint, --nnodes and --node_rank, or --standalone"));
}

absl::Status CheckOneTaskANode(const EnvironmentMap& environment) {
  const std::string text = SlurmVariable(environment, "SLURM_STEP_TASKS_PER_NODE");
  if (text.empty()) return absl::OkStatus();
  const absl::StatusOr<std::vector<int>> counts = ExpandCounts(text);
  if (!counts.ok()) return Annotate(counts.status(), "SLURM_STEP_TASKS_PER_NODE");
  const int most = *std::max_element(counts->begin(), counts->end());
  if (most <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("srun starts ", most, " tasks on a node (SLURM_STEP_TASKS_PER_NODE=", text,
                   "), but one mtrun a node starts all of its workers: srun --ntasks-per-node=1 mtrun "
                   "--nproc_per_node ",
                   most, " ..."));
}

}  // namespace

bool IsInSlurmStep(const EnvironmentMap& environment) {
  // A batch script has a job and no step of its own; a worker of mtrun inherits the step of its mtrun.
  return !SlurmVariable(environment, "SLURM_STEP_ID").empty() &&
         !SlurmVariable(environment, "SLURM_PROCID").empty() &&
         !SlurmVariable(environment, "SLURM_STEP_NODELIST").empty() &&
         SlurmVariable(environment, "MTRUN_SOCKET").empty();
}

absl::StatusOr<std::vector<DerivedSetting>> SettingsOfSlurmStep(const EnvironmentMap& environment) {
  MT_RETURN_IF_ERROR(CheckOneTaskANode(environment));
  const absl::StatusOr<std::vector<std::string>> hosts =
      ExpandHostlist(SlurmVariable(environment, "SLURM_STEP_NODELIST"));
  if (!hosts.ok()) return Annotate(hosts.status(), "SLURM_STEP_NODELIST");
  MT_ASSIGN_OR_RETURN(const int64_t job, Number(environment, "SLURM_JOB_ID"));
  MT_ASSIGN_OR_RETURN(const int64_t step, Number(environment, "SLURM_STEP_ID"));
  MT_ASSIGN_OR_RETURN(const int64_t rank, Number(environment, "SLURM_PROCID"));
  std::string id = absl::StrCat("slurm-", job, ".", step);
  if (const std::string again = SlurmVariable(environment, "SLURM_RESTART_COUNT");
      !again.empty() && again != "0")
    absl::StrAppend(&id, "-requeued-", again);
  const int port = static_cast<int>(kFirstPort + (job % kPorts + 97 * (step % kPorts)) % kPorts);
  std::vector<DerivedSetting> derived = {
      {"nnodes", absl::StrCat(hosts->size()), "SLURM_STEP_NODELIST"},
      {"node_rank", absl::StrCat(rank), "SLURM_PROCID"},
      {"rdzv_endpoint", ToText({hosts->front(), port}),
       "the first host of SLURM_STEP_NODELIST, a port by job and step"},
      {"rdzv_id", id, "SLURM_JOB_ID, SLURM_STEP_ID, SLURM_RESTART_COUNT"},
  };
  if (const std::string gpus = SlurmVariable(environment, "SLURM_GPUS_ON_NODE");
      !gpus.empty() && gpus != "0") {
    MT_ASSIGN_OR_RETURN(const int64_t count, Number(environment, "SLURM_GPUS_ON_NODE"));
    derived.push_back({"nproc_per_node", absl::StrCat(count), "SLURM_GPUS_ON_NODE"});
  }
  return derived;
}

}  // namespace mtrun::launcher
