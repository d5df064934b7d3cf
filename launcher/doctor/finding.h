// What mtrun --doctor says of one thing. A value; pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mtrun::launcher {

enum class Health { kOk, kWarn, kFail };

struct Finding {
  Health health = Health::kOk;
  std::string subject;    // "token"
  std::string found;      // what is there
  std::string mend = {};  // what to do about it, "" for nothing
  bool operator==(const Finding&) const = default;
};
using Findings = std::vector<Finding>;

/// A line each, in aligned columns: "warn  token   none yet: `mtrun --new_token` makes one".
std::string Render(const Findings& findings, bool colours);
/// 1 if something fails, else 0.
int ExitStatusOf(const Findings& findings);

/// "512 bytes", "64 KiB", "1.5 GiB".
std::string HumanBytes(uint64_t bytes);

}  // namespace mtrun::launcher
