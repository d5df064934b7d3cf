#include "launcher/workers/numa.h"

#include <sched.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "base/string_view.h"

namespace mtrun::launcher {
namespace {

using NumaGroup = std::vector<Processor>;

std::string Text(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  return text.ok() ? std::string(absl::StripAsciiWhitespace(*text)) : "";
}

int Number(const std::string& path, int otherwise) {
  int number = otherwise;
  return absl::SimpleAtoi(Text(path), &number) ? number : otherwise;
}

int Lowest(const std::string& path, int otherwise) {
  const std::vector<int> cpus = ParseRanges(Text(path));
  return cpus.empty() ? otherwise : cpus.front();
}

/// Returns the lowest cpu that shares the highest level of data cache with this one.
int CacheOf(const std::string& folder, int cpu) {
  int level = -1, lowest = cpu;
  for (int index = 0; index < 16; ++index) {
    const std::string cache = absl::StrCat(folder, "/cache/index", index);
    const std::string type = Text(cache + "/type");
    if (type.empty()) break;
    const int found = Number(cache + "/level", -1);
    if (type == "Instruction" || found <= level) continue;
    level = found;
    lowest = Lowest(cache + "/shared_cpu_list", cpu);
  }
  return lowest;
}

/// Returns the processors by their value of `field`, in their order.
std::map<int, NumaGroup> GroupBy(const NumaGroup& processors, int Processor::*field) {
  std::map<int, NumaGroup> groups;
  for (const Processor& processor : processors) groups[processor.*field].push_back(processor);
  return groups;
}

Binding BindTo(const NumaGroup& processors) {
  Binding binding;
  std::set<int> nodes;
  for (const Processor& processor : processors) {
    binding.cpus.push_back(processor.cpu);
    nodes.insert(processor.node);
  }
  std::sort(binding.cpus.begin(), binding.cpus.end());
  if (nodes.size() == 1) binding.memory_node = *nodes.begin();
  return binding;
}

/// Returns the home node of each of `slots` workers.
std::vector<int> Homes(const Topology& topology, size_t slots) {
  std::set<int> distinct;
  for (const Processor& processor : topology.processors) distinct.insert(processor.node);
  const std::vector<int> nodes(distinct.begin(), distinct.end());
  std::vector<int> homes;
  for (size_t i = 0; i < slots; ++i) {
    int home = nodes[i * nodes.size() / slots];
    if (!topology.gpu_nodes.empty()) {
      // A single node is often given as -1; a node that this process may not use cannot be a home.
      const int gpu_node = topology.gpu_nodes[i % topology.gpu_nodes.size()];
      home = distinct.contains(gpu_node) ? gpu_node : nodes.front();
    }
    homes.push_back(home);
  }
  return homes;
}

absl::StatusOr<Binding> ShareOf(const NumaGroup& node, size_t index, size_t sharers) {
  const std::map<int, NumaGroup> cores = GroupBy(node, &Processor::core);
  if (cores.size() < sharers) {
    return absl::FailedPreconditionError(
        absl::StrCat("--numa_binding exclusive: ", sharers, " workers share NUMA node ", node.front().node,
                     ", which has only ", cores.size(), " physical cores that mtrun may use"));
  }
  const size_t each = cores.size() / sharers, more = cores.size() % sharers;
  const size_t begin = index * each + std::min(index, more);
  const size_t end = begin + each + (index < more ? 1 : 0);
  NumaGroup share;
  size_t i = 0;
  for (const auto& [core, processors] : cores) {
    if (i >= begin && i < end) share.insert(share.end(), processors.begin(), processors.end());
    ++i;
  }
  return BindTo(share);
}

Binding ComplexOf(const NumaGroup& node, size_t index) {
  std::vector<NumaGroup> complexes;
  for (const auto& [cache, processors] : GroupBy(node, &Processor::cache)) complexes.push_back(processors);
  std::stable_sort(complexes.begin(), complexes.end(),
                   [](const NumaGroup& a, const NumaGroup& b) { return a.size() > b.size(); });
  return BindTo(complexes[index % complexes.size()]);
}

}  // namespace

absl::StatusOr<Topology> ReadTopology(const std::string& root, const std::vector<int>& allowed,
                                      const std::vector<std::string>& gpus) {
  const std::string system = root + "/sys/devices/system";
  Topology topology;
  std::vector<int> nodes = ParseRanges(Text(system + "/node/online"));
  if (nodes.empty()) nodes = ParseRanges(Text(system + "/node/possible"));
  for (const int node : nodes) {
    for (const int cpu : ParseRanges(Text(absl::StrCat(system, "/node/node", node, "/cpulist")))) {
      if (std::find(allowed.begin(), allowed.end(), cpu) == allowed.end()) continue;
      const std::string folder = absl::StrCat(system, "/cpu/cpu", cpu);
      topology.processors.push_back({cpu, node, Number(folder + "/topology/physical_package_id", node),
                                     Lowest(folder + "/topology/thread_siblings_list", cpu),
                                     CacheOf(folder, cpu)});
    }
  }
  std::sort(topology.processors.begin(), topology.processors.end(),
            [](const Processor& a, const Processor& b) { return a.cpu < b.cpu; });
  if (topology.processors.empty()) {
    return absl::NotFoundError(
        absl::StrCat("--numa_binding: ", system, "/node shows no NUMA nodes on this machine"));
  }
  for (const std::string& gpu : gpus)
    topology.gpu_nodes.push_back(Number(absl::StrCat(root, "/sys/bus/pci/devices/", gpu, "/numa_node"), -1));
  return topology;
}

absl::StatusOr<std::vector<Binding>> BindWorkers(const Topology& topology, std::string_view mode,
                                                 int workers) {
  const size_t wanted = static_cast<size_t>(workers);
  const size_t slots = std::max(wanted, topology.gpu_nodes.size());
  const std::vector<int> homes = Homes(topology, slots);
  const std::map<int, NumaGroup> nodes = GroupBy(topology.processors, &Processor::node);
  std::vector<Binding> bindings;
  for (size_t i = 0; i < wanted; ++i) {
    const NumaGroup& node = nodes.at(homes[i]);
    const auto index =
        static_cast<size_t>(std::count(homes.begin(), homes.begin() + static_cast<long>(i), homes[i]));
    const auto sharers = static_cast<size_t>(std::count(homes.begin(), homes.end(), homes[i]));
    if (mode == "node") {
      bindings.push_back(BindTo(node));
    } else if (mode == "socket") {
      bindings.push_back(BindTo(GroupBy(topology.processors, &Processor::socket)[node.front().socket]));
    } else if (mode == "exclusive") {
      MT_ASSIGN_OR_RETURN(Binding share, ShareOf(node, index, sharers));
      bindings.push_back(std::move(share));
    } else {
      bindings.push_back(ComplexOf(node, index));
    }
  }
  return bindings;
}

std::string ModeUnder(std::optional<double> quota, const Topology& topology, std::string_view mode,
                      int workers) {
  if (!quota || *quota >= static_cast<double>(topology.processors.size())) return std::string(mode);
  const size_t nodes = GroupBy(topology.processors, &Processor::node).size();
  if (topology.gpu_nodes.empty() && static_cast<size_t>(workers) < nodes) return "";
  return mode == "socket" ? "socket" : "node";
}

std::vector<int> ParseRanges(std::string_view text) {
  std::vector<int> numbers;
  for (absl::string_view item : absl::StrSplit(View(text), ',')) {
    const std::vector<absl::string_view> ends = absl::StrSplit(absl::StripAsciiWhitespace(item), '-');
    int first = 0, last = 0;
    if (ends.size() > 2 || !absl::SimpleAtoi(ends.front(), &first) || !absl::SimpleAtoi(ends.back(), &last))
      continue;
    for (int number = first; number <= last; ++number) numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::string RangesText(const std::vector<int>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i;
    while (end + 1 < numbers.size() && numbers[end + 1] == numbers[end] + 1) ++end;
    absl::StrAppend(&text, text.empty() ? "" : ",", numbers[i]);
    if (end > i) absl::StrAppend(&text, "-", numbers[end]);
    i = end + 1;
  }
  return text;
}

std::vector<int> AllowedProcessors() {
  cpu_set_t set;
  std::vector<int> allowed;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return allowed;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) allowed.push_back(cpu);
  }
  return allowed;
}

}  // namespace mtrun::launcher
