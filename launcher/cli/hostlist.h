// Host lists in Slurm's format: "node[001-003,7],gpu-a,rack[1-2]n[0-1]". Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun::launcher {

/// Limit of hosts in a list.
inline constexpr size_t kMaxHosts = 65536;

/// Returns the hosts in order; numbers keep their leading zeros, and several brackets in a name multiply.
/// kInvalidArgument describes the error: the list is empty or malformed, has more than kMaxHosts hosts, or
/// contains characters that host names do not allow.
absl::StatusOr<std::vector<std::string>> ExpandHostlist(std::string_view text);

/// Returns the end of the list item that begins at `begin`: the next comma outside of brackets, or the end.
size_t EndOfHostlistItem(std::string_view text, size_t begin);

/// Expands "2(x3),1" to 2, 2, 2, 1 (format of SLURM_STEP_TASKS_PER_NODE). kInvalidArgument if malformed.
absl::StatusOr<std::vector<int>> ExpandCounts(std::string_view text);

}  // namespace mtrun::launcher
