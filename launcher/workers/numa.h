// Which processors each worker is tied to (--numa_binding), from the machine's topology. Decisions are pure;
// the topology is read from sysfs below a root folder.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun::launcher {

struct Processor {
  int cpu = 0;
  int node = 0;    // NUMA node
  int socket = 0;  // physical package
  int core = 0;    // lowest cpu of the same physical core
  int cache = 0;   // lowest cpu that shares the largest cache
  bool operator==(const Processor&) const = default;
};

struct Topology {
  std::vector<Processor> processors;  // those that this process may use, ascending
  std::vector<int> gpu_nodes;         // NUMA node of each visible GPU, in CUDA's order
};

/// `allowed`: what sched_getaffinity gives; `gpus`: PCI addresses of the visible GPUs. kNotFound when sysfs
/// shows no NUMA nodes.
absl::StatusOr<Topology> ReadTopology(const std::string& root, const std::vector<int>& allowed,
                                      const std::vector<std::string>& gpus);

struct Binding {
  std::vector<int> cpus;           // ascending, never empty
  std::optional<int> memory_node;  // where memory is preferred, when all cpus are on one node
  bool operator==(const Binding&) const = default;
};

/// One binding a worker. Local rank i belongs to GPU i's node; without GPUs (or with more workers than GPUs)
/// the workers are spread evenly. `mode`:
///   node          all processors of the node
///   socket        all processors of the node's socket
///   exclusive     an equal share of the node's physical cores, the first workers get what is left over
///   core-complex  the processors of one largest cache of the node, the largest caches first
/// kFailedPrecondition when there are fewer cores than workers to share them.
absl::StatusOr<std::vector<Binding>> BindWorkers(const Topology& topology, std::string_view mode,
                                                 int workers);

/// What is left of `mode` under `quota`, the processors' worth of time that this machine's control groups
/// leave to this process; "" where no worker is to be tied.
///
/// A quota says how much time there is, not on which processors. Whoever else has one here (the containers of
/// a machine) finds the same processors free and would tie its workers to the same ones, the first of a node,
/// while others idle. So with less time than processors nothing narrower than a node is promised: `exclusive`
/// and `core-complex` become `node`, whose processors the kernel shares out. And without GPUs, which differ
/// between those who share a machine, workers that do not fill all nodes are not tied: the first nodes would
/// be everyone's.
std::string ModeUnder(std::optional<double> quota, const Topology& topology, std::string_view mode,
                      int workers);

/// "0-2,5" as numbers; sysfs's form of sets.
std::vector<int> ParseRanges(std::string_view text);
/// The reverse.
std::string RangesText(const std::vector<int>& numbers);

/// This process's processors.
std::vector<int> AllowedProcessors();

}  // namespace mtrun::launcher
