#include "launcher/cli/slurm_step.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/endpoint.h"
#include "base/status_macros.h"
#include "base/value_or.h"
#include "launcher/cli/hostlist.h"

namespace mtrun::launcher {
namespace {

// Below the kernel's ephemeral ports, and separate from the ports of trainers run by srun without mtrun.
constexpr int64_t kFirstPort = 15000, kPorts = 5000;

absl::StatusOr<int64_t> Number(const EnvironmentMap& environment, const std::string& name) {
  int64_t number = 0;
  const std::string text = ValueOr(environment, name);
  if (absl::SimpleAtoi(text, &number) && number >= 0) return number;
  return absl::InvalidArgumentError(
      absl::StrCat("in a Slurm step: ", name,
                   text.empty() ? " is missing" : absl::StrCat(" is \"", text, "\", not a number"),
                   "; give --rdzv_endpoint, --nnodes and --node_rank, or --standalone"));
}

}  // namespace

bool IsInSlurmStep(const EnvironmentMap& environment) {
  // A batch script has a job but no step of its own; a worker of mtrun inherits its mtrun's step.
  return !ValueOr(environment, "SLURM_STEP_ID").empty() && !ValueOr(environment, "SLURM_PROCID").empty() &&
         !ValueOr(environment, "SLURM_STEP_NODELIST").empty() && ValueOr(environment, "MTRUN_SOCKET").empty();
}

bool IsInSlurmShell(const EnvironmentMap& environment) {
  int64_t task = 0;
  if (!IsInSlurmStep(environment) || ValueOr(environment, "SLURM_PTY_PORT").empty() ||
      !absl::SimpleAtoi(ValueOr(environment, "SLURM_TASK_PID"), &task))
    return false;
  const pid_t group = getpgid(static_cast<pid_t>(task));  // -1: the task is gone
  return group >= 0 && group != getpgrp();                // 0: a group outside of this namespace
}

absl::Status CheckOneTaskANode(const EnvironmentMap& environment) {
  const std::string text = ValueOr(environment, "SLURM_STEP_TASKS_PER_NODE");
  if (text.empty()) return absl::OkStatus();
  MT_ASSIGN_OR_RETURN(const std::vector<int> counts,
                      Annotate(ExpandCounts(text), "SLURM_STEP_TASKS_PER_NODE"));
  const int most = *std::max_element(counts.begin(), counts.end());
  if (most <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("srun starts ", most, " tasks on a node (SLURM_STEP_TASKS_PER_NODE=", text,
                   "), but one mtrun on each node starts all of its workers: srun --ntasks-per-node=1 mtrun "
                   "--nproc_per_node ",
                   most, " ..."));
}

absl::StatusOr<std::vector<DerivedSetting>> SettingsOfSlurmStep(const EnvironmentMap& environment) {
  MT_ASSIGN_OR_RETURN(
      const std::vector<std::string> hosts,
      Annotate(ExpandHostlist(ValueOr(environment, "SLURM_STEP_NODELIST")), "SLURM_STEP_NODELIST"));
  MT_ASSIGN_OR_RETURN(const int64_t job, Number(environment, "SLURM_JOB_ID"));
  MT_ASSIGN_OR_RETURN(const int64_t step, Number(environment, "SLURM_STEP_ID"));
  MT_ASSIGN_OR_RETURN(const int64_t rank, Number(environment, "SLURM_PROCID"));
  std::string id = absl::StrCat("slurm-", job, ".", step);
  if (const std::string again = ValueOr(environment, "SLURM_RESTART_COUNT"); !again.empty() && again != "0")
    absl::StrAppend(&id, "-requeued-", again);
  const int port = static_cast<int>(kFirstPort + (job % kPorts + 97 * (step % kPorts)) % kPorts);
  std::vector<DerivedSetting> derived = {
      {"nnodes", absl::StrCat(hosts.size()), "SLURM_STEP_NODELIST"},
      {"node_rank", absl::StrCat(rank), "SLURM_PROCID"},
      {"rdzv_endpoint", ToText({hosts.front(), port}),
       "the first host of SLURM_STEP_NODELIST, a port by job and step"},
      {"rdzv_id", id, "SLURM_JOB_ID, SLURM_STEP_ID, SLURM_RESTART_COUNT"},
  };
  if (const std::string gpus = ValueOr(environment, "SLURM_GPUS_ON_NODE"); !gpus.empty() && gpus != "0") {
    MT_ASSIGN_OR_RETURN(const int64_t count, Number(environment, "SLURM_GPUS_ON_NODE"));
    derived.push_back({"nproc_per_node", absl::StrCat(count), "SLURM_GPUS_ON_NODE"});
  }
  return derived;
}

}  // namespace mtrun::launcher
