// An all-reduce over several hosts: each byte of a host's partial sums, and of the sums, crosses the network
// once for each host that needs it (host_sum.h). Performs the plan.
//
// A block passes four stages, one a phase:
//  1. offer    ranks expose their inputs; each adds those of its host in what it owns and carries
//  2. gather   partial sums go to the owners, which add them
//  3. return   sums go to the carriers; ranks expose those that they own
//  4. spread   ranks expose the sums that they carry
// Blocks overlap: in one phase each of four blocks is in another stage. Notes then go to one rank of each host
// and from there to the others. If no host has several ranks, the stages are gather and return.
#pragma once

#include "absl/status/status.h"
#include "trainers/collectives/transport.h"
#include "trainers/collectives/tree_sum.h"

namespace mtrun::collectives {

/// Like AllReduce of operations.h. REQUIRES: several hosts.
absl::Status ReduceOverHosts(Transport& transport, const Call& call, void* data, Notes* notes,
                             const TreePlan& plan);

}  // namespace mtrun::collectives
