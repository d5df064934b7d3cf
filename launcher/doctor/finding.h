// One finding of mtrun --doctor. A value; pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mtrun::launcher {

enum class Health { kOk, kWarn, kFail };

struct Finding {
  Health health = Health::kOk;
  std::string subject;    // "token"
  std::string found;      // observed state
  std::string mend = {};  // remedy, "" for none
  bool operator==(const Finding&) const = default;
};
using Findings = std::vector<Finding>;

/// Returns one line per finding, in aligned columns: "warn  token   none yet: `mtrun --new_token` makes one".
/// Text that is too long for a terminal of `columns` (0: no terminal) is wrapped.
std::string Render(const Findings& findings, bool colours, int columns);
/// Returns 1 if a finding is kFail, otherwise 0.
int ExitStatusOf(const Findings& findings);

/// Returns "512 bytes", "64 KiB", "1.5 GiB".
std::string HumanBytes(uint64_t bytes);

}  // namespace mtrun::launcher
