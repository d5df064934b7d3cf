// Lists of hosts as Slurm writes them: "node[001-003,7],gpu-a,rack[1-2]n[0-1]". Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun::launcher {

/// No list means more hosts than that.
inline constexpr size_t kMostHosts = 65536;

/// The hosts in their order; numbers keep their leading zeros. Several brackets in a name multiply.
/// kInvalidArgument says what is wrong, and where, in a list that is empty or malformed, names more than
/// kMostHosts hosts, or has characters that no host name has.
absl::StatusOr<std::vector<std::string>> ExpandHostlist(std::string_view text);

/// Where the list's item that begins at `begin` ends: at a comma outside of brackets, or at the end.
size_t EndOfHostlistItem(std::string_view text, size_t begin);

/// "2(x3),1": 2, 2, 2, 1, as SLURM_STEP_TASKS_PER_NODE has it. kInvalidArgument likewise.
absl::StatusOr<std::vector<int>> ExpandCounts(std::string_view text);

}  // namespace mtrun::launcher
