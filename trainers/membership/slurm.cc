#include "trainers/membership/slurm.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/value_or.h"

namespace mtrun::trainers {
namespace {

constexpr int64_t kFirstPort = 20000, kPorts = 10000;

int64_t Number(const EnvironmentMap& environment, const std::string& name) {
  int64_t number = 0;
  return absl::SimpleAtoi(ValueOr(environment, name), &number) ? number : 0;
}

}  // namespace

std::string FirstHost(std::string_view node_list) {
  const size_t bracket = node_list.find_first_of("[,");
  if (bracket == std::string_view::npos || node_list[bracket] == ',') {
    return std::string(node_list.substr(0, bracket));
  }
  const std::string_view range = node_list.substr(bracket + 1);
  std::string host(node_list.substr(0, bracket));
  host += range.substr(0, range.find_first_of(",-]"));
  const size_t close = range.find(']');
  if (close != std::string_view::npos) {
    const std::string_view rest = range.substr(close + 1);
    host += rest.substr(0, rest.find(','));
  }
  return host;
}

void AddSlurm(EnvironmentMap& environment) {
  const bool started = IsLaunched(environment) || !ValueOr(environment, "MTRUN_SOCKET").empty();
  const int64_t tasks = Number(environment, "SLURM_STEP_NUM_TASKS");
  // A batch script has SLURM_PROCID too but no step: it is one process without peers.
  if (started || tasks < 2 || ValueOr(environment, "SLURM_STEP_ID").empty()) return;
  environment["RANK"] = ValueOr(environment, "SLURM_PROCID");
  environment["WORLD_SIZE"] = absl::StrCat(tasks);
  environment["LOCAL_RANK"] = ValueOr(environment, "SLURM_LOCALID");
  // "4(x2),3": the first number is close enough for dividing the cores.
  const std::string per_node = ValueOr(environment, "SLURM_STEP_TASKS_PER_NODE");
  if (!per_node.empty()) {
    environment["LOCAL_WORLD_SIZE"] = per_node.substr(0, per_node.find_first_of("(,"));
  }
  if (const std::string nodes = ValueOr(environment, "SLURM_STEP_NUM_NODES"); !nodes.empty()) {
    environment["GROUP_WORLD_SIZE"] = nodes;
  }
  environment.emplace("MASTER_ADDR", FirstHost(ValueOr(environment, "SLURM_STEP_NODELIST")));
  const int64_t step = Number(environment, "SLURM_JOB_ID") + 97 * Number(environment, "SLURM_STEP_ID");
  environment.emplace("MASTER_PORT", absl::StrCat(kFirstPort + step % kPorts));
}

}  // namespace mtrun::trainers
