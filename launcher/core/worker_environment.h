// The environment of each worker of a node, derived from the generation's assignment. Pure.
#pragma once

#include <string>

#include "base/worker_channel.h"
#include "base/worker_env.h"
#include "rendezvous/wire/types.h"

namespace mtrun::launcher {

/// Values shared by all workers of this node in one generation.
struct NodeContext {
  int max_restarts = 0;
  std::string run_id = "none";
  std::string socket = {};  // MTRUN_SOCKET
  int lease = -1;           // MTRUN_LEASE: an inherited descriptor; -1: no lease
  bool set_omp = false;     // see NeedsOmpThreads
  bool virtual_local_rank = false;
  std::string interface = {};   // GLOO_SOCKET_IFNAME unless set; "": none
  bool for_nccl = false;        // also as NCCL_SOCKET_IFNAME
  std::string zone = {};        // for MASTER_ADDR, see link_zone.h
  std::string timer_file = {};  // TORCHELASTIC_TIMER_FILE, "" for none
  EnvironmentMap flags = {};    // variables that tell workers the values of mtrun's flags (FlagVariables)
  EnvironmentMap parent = {};   // mtrun's own environment
};

/// Returns the variable that selects the node's GPUs: HIP_VISIBLE_DEVICES if it is set (ROCm), otherwise
/// CUDA_VISIBLE_DEVICES.
std::string DevicesVariable(const EnvironmentMap& parent);
/// Returns its entry for `local_rank` (the number if unset); "" if there are too few.
std::string DeviceOf(const EnvironmentMap& parent, int local_rank);

/// Returns torchrun's choice: one OpenMP thread each if there are several and OMP_NUM_THREADS is unset.
bool NeedsOmpThreads(const EnvironmentMap& parent, int workers);

/// `member` is this node's index in `assignment.members`. Role ranks count only the workers of the same role.
WorkerEnv MakeWorkerEnv(const rendezvous::Assignment& assignment, size_t member, int local_rank,
                        const NodeContext& node, const std::string& error_file);
/// Returns the part of mtrun's environment that all workers share.
EnvironmentMap CommonEnvironment(const NodeContext& node);
/// Returns mtrun's environment overlaid with the worker's. With virtual local ranks, LOCAL_RANK is 0 and
/// the devices are the worker's own entry of the parent's.
EnvironmentMap MakeEnvironment(const WorkerEnv& worker, const NodeContext& node);

/// Returns the same assignment as a channel message for the worker with this local rank and rank. `zone`: for
/// link-local addresses of peers, see link_zone.h.
channel::Assignment MakeChannelAssignment(const rendezvous::Assignment& assignment, size_t member,
                                          int local_rank, int rank, const std::string& zone = "");

}  // namespace mtrun::launcher
