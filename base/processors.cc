#include "base/processors.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/control_groups.h"
#include "base/posix.h"

namespace mtrun {
namespace {

std::string Text(const std::string& path) { return ReadFile(path).value_or(""); }

/// Returns the ratio of two texts in microseconds; nothing if they set no limit ("max", -1, a missing file).
std::optional<double> Quotient(absl::string_view quota, absl::string_view period) {
  int64_t allowed = 0, each = 0;
  if (!absl::SimpleAtoi(quota, &allowed) || !absl::SimpleAtoi(period, &each)) return std::nullopt;
  if (allowed <= 0 || each <= 0) return std::nullopt;
  return static_cast<double>(allowed) / static_cast<double>(each);
}

std::optional<double> QuotaOf(const std::string& folder, bool version2) {
  if (!version2) return Quotient(Text(folder + "/cpu.cfs_quota_us"), Text(folder + "/cpu.cfs_period_us"));
  const std::string text = Text(folder + "/cpu.max");  // "200000 100000" or "max 100000"
  const std::vector<std::string> words = absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  return words.size() == 2 ? Quotient(words[0], words[1]) : std::nullopt;
}

}  // namespace

std::optional<double> ProcessorQuota(const std::string& root) {
  std::optional<double> least;
  for (const ControlGroup& group : ControlGroupsOf("cpu", root)) {
    const std::optional<double> quota = QuotaOf(group.folder, group.version2);
    if (quota && (!least || *quota < *least)) least = quota;
  }
  return least;
}

int UsableProcessors(const std::string& root) {
  cpu_set_t allowed;
  int count = sched_getaffinity(0, sizeof allowed, &allowed) == 0
                  ? CPU_COUNT(&allowed)
                  : static_cast<int>(std::thread::hardware_concurrency());
  if (const std::optional<double> quota = ProcessorQuota(root))
    count = std::min(count, static_cast<int>(std::min(std::ceil(*quota), 1e6)));
  return std::max(count, 1);
}

}  // namespace mtrun
