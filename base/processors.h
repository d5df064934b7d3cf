// How many processors this process can really use: those in its affinity mask, capped by its control groups'
// CPU quota. Files are read below `root`: "" for this machine, or a test folder that contains proc/ and sys/.
#pragma once

#include <optional>
#include <string>

namespace mtrun {

/// Returns the CPU quota of this process in processors: the smallest of its control group and that group's
/// ancestors (cpu.max in version 2, cpu.cfs_quota_us in version 1). Returns nothing if there is no limit.
std::optional<double> ProcessorQuota(const std::string& root = "");

/// Returns at least 1; a fraction of a processor counts as one.
int UsableProcessors(const std::string& root = "");

}  // namespace mtrun
