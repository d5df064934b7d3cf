// Which ranks share a host. A value.
#pragma once

#include <string>
#include <vector>

namespace mtrun::collectives {

/// Hosts are numbered in the order of their lowest ranks.
struct HostMap {
  std::vector<int> host_of;                // by rank
  std::vector<int> index_of;               // by rank: its place among the ranks of its host
  std::vector<std::vector<int>> ranks_of;  // by host, ascending; they need not be consecutive

  int hosts() const { return static_cast<int>(ranks_of.size()); }
  /// Returns true if a host has several ranks.
  bool shares() const { return host_of.size() > ranks_of.size(); }
  const std::vector<int>& with(int rank) const {
    return ranks_of[static_cast<size_t>(host_of[static_cast<size_t>(rank)])];
  }
  bool operator==(const HostMap&) const = default;
};

/// `ids`: by rank, equal if and only if the ranks share a host.
HostMap MapHosts(const std::vector<std::string>& ids);

}  // namespace mtrun::collectives
