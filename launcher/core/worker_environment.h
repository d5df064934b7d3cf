// What each worker of a node finds in its environment, from the generation's assignment. Pure.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/port_range.h"
#include "base/worker_channel.h"
#include "base/worker_env.h"
#include "rendezvous/types.h"

namespace mtrun::launcher {

/// What is the same for all workers of this node in one generation.
struct NodeContext {
  int max_restarts = 0;
  int configured_world = 1;  // MTRUN_CONFIGURED_WORLD: workers of the job at its largest
  std::string run_id = "none";
  std::string socket = {};  // MTRUN_SOCKET
  int lease = -1;           // MTRUN_LEASE: an inherited descriptor; -1: no lease
  bool set_omp = false;     // see NeedsOmpThreads
  bool virtual_local_rank = false;
  bool agent_store = false;                      // TORCHELASTIC_USE_AGENT_STORE
  Duration shutdown_timeout = Duration::zero();  // MTRUN_SHUTDOWN_TIMEOUT
  PortRange port_range = {};                     // MTRUN_PORT_RANGE
  std::string interface = {};   // NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME unless set; "": none
  std::string timer_file = {};  // TORCHELASTIC_TIMER_FILE, "" for none
  EnvironmentMap parent = {};   // mtrun's own environment
};

/// The entry of CUDA_VISIBLE_DEVICES (without it the number) that local rank `local_rank` gets; "" when there
/// are not enough.
std::string DeviceOf(const EnvironmentMap& parent, int local_rank);

/// torchrun's rule: more than one worker and no OMP_NUM_THREADS gives each of them one thread.
bool NeedsOmpThreads(const EnvironmentMap& parent, int workers);

/// `member` is this node's place in `assignment.members`. The role's ranks count the workers of the same role
/// only.
WorkerEnv MakeWorkerEnv(const rendezvous::Assignment& assignment, size_t member, int local_rank,
                        const NodeContext& node, const std::string& error_file);
/// mtrun's environment as far as workers get it, without what is the worker's own.
EnvironmentMap CommonEnvironment(const NodeContext& node);
/// mtrun's environment overlaid with the worker's. With virtual local ranks LOCAL_RANK is 0 and
/// CUDA_VISIBLE_DEVICES the worker's own entry of the parent's.
EnvironmentMap MakeEnvironment(const WorkerEnv& worker, const NodeContext& node);

/// The same news for the channel of the worker with this local rank and rank.
channel::Assignment MakeChannelAssignment(const rendezvous::Assignment& assignment, size_t member,
                                          int local_rank, int rank);

}  // namespace mtrun::launcher
