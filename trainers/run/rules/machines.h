// The kinds of machines that compute a run: the same operation can have other last bits on another kind. Pure;
// does not depend on LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mtrun::trainers {

/// Machines of the members of a generation.
struct Machines {
  std::vector<std::string> kinds;  // distinct, sorted
  std::string by_rank;             // kinds with their ranks; "" if there is only one kind
  bool operator==(const Machines&) const = default;
};

/// by_rank[rank]: that member's kind; "" if it is unknown.
Machines MachinesOf(const std::vector<std::string>& by_rank);

/// Returns how `now` adds kinds to those that have computed `steps` steps, `before`; "" if it adds none,
/// or if nothing is known and there is one kind.
std::string DescribeOtherMachines(const std::vector<std::string>& before, const Machines& now, int64_t steps);

/// Returns the kinds of both, sorted.
std::vector<std::string> AllKinds(const std::vector<std::string>& before, const Machines& now);

}  // namespace mtrun::trainers
