// Binds each worker to processors (--numa_binding), according to the machine's topology. Decisions are pure;
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
  std::vector<Processor> processors;  // those available to this process, ascending
  std::vector<int> gpu_nodes;         // NUMA node of each visible GPU, in CUDA's order
};

/// `allowed`: the result of sched_getaffinity; `gpus`: PCI addresses of the visible GPUs. kNotFound if sysfs
/// shows no NUMA nodes.
absl::StatusOr<Topology> ReadTopology(const std::string& root, const std::vector<int>& allowed,
                                      const std::vector<std::string>& gpus);

struct Binding {
  std::vector<int> cpus;           // ascending, never empty
  std::optional<int> memory_node;  // preferred for memory if all cpus are on one node
  bool operator==(const Binding&) const = default;
};

/// Returns one binding per worker. Local rank i belongs to GPU i's node; if there are no GPUs (or fewer than
/// workers) the workers are spread evenly. `mode`:
/// node          all processors of the node
/// socket        all processors of the node's socket
/// exclusive     an equal share of the node's physical cores; the first workers get the remainder
/// core-complex  the processors of one largest cache of the node, the largest caches first
/// kFailedPrecondition if fewer cores than workers are available.
absl::StatusOr<std::vector<Binding>> BindWorkers(const Topology& topology, std::string_view mode,
                                                 int workers);

/// Returns the mode to use instead of `mode` under `quota`, the processor time that this machine's control
/// groups allow this process (in processors); "" if workers must not be bound.
///
/// A quota limits the time, not the set of processors. Other containers on the machine see the same free
/// processors and would bind their workers to the same ones, the first of a node, while others idle. If there
/// is less time than processors, nothing narrower than a node is therefore used: `exclusive` and
/// `core-complex` become `node`, whose processors the kernel shares out. GPUs differ between the containers
/// of a machine. Without GPUs, workers that do not fill all nodes are not bound, because every container
/// would pick the first nodes.
std::string ModeUnder(std::optional<double> quota, const Topology& topology, std::string_view mode,
                      int workers);

/// Parses sysfs's set format: "0-2,5".
std::vector<int> ParseRanges(std::string_view text);
/// Formats a set the same way.
std::string RangesText(const std::vector<int>& numbers);

/// Returns the processors that this process may use.
std::vector<int> AllowedProcessors();

}  // namespace mtrun::launcher
