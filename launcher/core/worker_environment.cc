#include "launcher/core/worker_environment.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/data_key.h"
#include "base/link_zone.h"
#include "base/own_launch.h"
#include "base/port_range.h"
#include "base/status_macros.h"
#include "base/token.h"
#include "base/value_or.h"

namespace mtrun::launcher {
namespace {

constexpr char kCudaDevices[] = "CUDA_VISIBLE_DEVICES", kHipDevices[] = "HIP_VISIBLE_DEVICES";

}  // namespace

bool NeedsOmpThreads(const EnvironmentMap& parent, int workers) {
  return workers > 1 && !parent.contains("OMP_NUM_THREADS");
}

std::string DevicesVariable(const EnvironmentMap& parent) {
  return ValueOr(parent, kHipDevices).empty() ? kCudaDevices : kHipDevices;
}

std::string DeviceOf(const EnvironmentMap& parent, int local_rank) {
  const auto found = parent.find(DevicesVariable(parent));
  if (found == parent.end()) return absl::StrCat(local_rank);
  const std::vector<absl::string_view> entries = absl::StrSplit(found->second, ',');
  const auto place = static_cast<size_t>(local_rank);
  return place < entries.size() ? std::string(absl::StripAsciiWhitespace(entries[place])) : "";
}

WorkerEnv MakeWorkerEnv(const rendezvous::Assignment& assignment, size_t member, int local_rank,
                        const NodeContext& node, const std::string& error_file) {
  MT_CHECK(member < assignment.members.size()) << rendezvous::Describe(assignment);
  const rendezvous::Member& self = assignment.members[member];
  MT_CHECK(local_rank >= 0 && local_rank < self.workers) << local_rank;
  WorkerEnv worker;
  worker.rank = self.first_rank + local_rank;
  worker.local_rank = local_rank;
  worker.world_size = assignment.world_size;
  worker.local_world_size = self.workers;
  worker.group_rank = self.node_rank;
  worker.group_world_size = static_cast<int>(assignment.members.size());
  worker.role_rank = local_rank;
  worker.role_world_size = 0;
  for (size_t i = 0; i < assignment.members.size(); ++i) {
    if (assignment.members[i].role != self.role) continue;
    worker.role_world_size += assignment.members[i].workers;
    if (i < member) worker.role_rank += assignment.members[i].workers;
  }
  worker.role_name = self.role;
  worker.master_addr = WithZone(assignment.master_address, node.zone);
  worker.master_port = assignment.master_port;
  worker.restart_count = assignment.restart_count;
  worker.max_restarts = node.max_restarts;
  worker.run_id = node.run_id;
  worker.error_file = error_file;
  worker.socket = node.socket;
  worker.lease = node.lease;
  worker.generation = channel::ToText(assignment.generation);
  return worker;
}

EnvironmentMap CommonEnvironment(const NodeContext& node) {
  EnvironmentMap environment = node.parent;
  // Workers have their own secrets. Programs that read from data servers ask the agent for the key.
  environment.erase(kTokenVariable);
  environment.erase(kDataKeyVariable);
  // Settings of an outer job, if mtrun runs in a worker: without them a worker has no lease and any port.
  environment.erase("MTRUN_LEASE");
  environment.erase(kPortRangeVariable);
  if (node.set_omp) environment.insert_or_assign("OMP_NUM_THREADS", std::string("1"));
  return environment;
}

EnvironmentMap MakeEnvironment(const WorkerEnv& worker, const NodeContext& node) {
  EnvironmentMap environment = CommonEnvironment(node);
  for (auto& [name, value] : ToEnvironment(worker)) environment[name] = value;
  for (const auto& [name, value] : node.flags) environment[name] = value;
  environment["MTRUN_STEP"] = StepOf(environment);
  environment["MTRUN_WORKER"] = PlaceOf(environment);
  environment.try_emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  if (!node.interface.empty()) {
    // "=": not as a prefix.
    if (node.for_nccl) environment.try_emplace("NCCL_SOCKET_IFNAME", absl::StrCat("=", node.interface));
    environment.try_emplace("GLOO_SOCKET_IFNAME", node.interface);
  }
  if (node.virtual_local_rank) {
    environment.insert_or_assign("LOCAL_RANK", std::string("0"));  // GCC 12 warns about =
    environment[kCudaDevices] = DeviceOf(node.parent, worker.local_rank);
    environment[DevicesVariable(node.parent)] = environment[kCudaDevices];
  }
  if (!node.timer_file.empty()) environment["TORCHELASTIC_TIMER_FILE"] = node.timer_file;
  return environment;
}

channel::Assignment MakeChannelAssignment(const rendezvous::Assignment& assignment, size_t member,
                                          int local_rank, int rank, const std::string& zone) {
  const rendezvous::Member& self = assignment.members[member];
  channel::Assignment news;
  news.generation = assignment.generation;
  news.rank = rank;
  news.local_rank = local_rank;
  news.world_size = assignment.world_size;
  news.local_world_size = self.workers;
  news.node_rank = self.node_rank;
  for (const rendezvous::Member& peer : assignment.members) {
    news.peers.push_back({peer.host, WithZone(peer.address, zone), peer.first_rank, peer.workers});
  }
  return news;
}

}  // namespace mtrun::launcher
