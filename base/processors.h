// How many processors this process may really use: those that it may run on, and no more than its control
// group's quota of processor time comes to. `root` reads files below it: "" for this machine, a folder with
// proc/ and sys/ in tests.
#pragma once

#include <optional>
#include <string>

namespace mtrun {

/// Processors' worth of time that the control groups of this process allow together (the smallest of its
/// group and those above it; cpu.max of version 2, cpu.cfs_quota_us of version 1); nothing without a limit.
std::optional<double> ProcessorQuota(const std::string& root = "");

/// At least 1; a part of a processor counts as one.
int UsableProcessors(const std::string& root = "");

}  // namespace mtrun
