#include "launcher/observe/use_reader.h"

#include <sched.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/posix.h"
#include "launcher/workers/process_tree.h"

namespace mtrun::launcher {
namespace {

std::vector<absl::string_view> Words(absl::string_view text) {
  return absl::StrSplit(text, absl::ByAnyChar(" \n\t"), absl::SkipEmpty());
}

int64_t Number(const std::vector<absl::string_view>& words, size_t at) {
  int64_t number = 0;
  return at < words.size() && absl::SimpleAtoi(words[at], &number) && number > 0 ? number : 0;
}

Duration OfTicks(int64_t ticks) {
  static const int64_t per_second = sysconf(_SC_CLK_TCK);
  return std::chrono::nanoseconds(ticks * (1'000'000'000 / per_second));
}

/// proc(5), fields 14 to 17 of stat: user and system time of the process and of its reaped children.
void AddProcess(const std::string& root, int64_t pid, rendezvous::WorkerUse* use) {
  const std::string folder = absl::StrCat(root, "/proc/", pid);
  const std::string stat = ReadFile(folder + "/stat").value_or("");
  const size_t name_end = stat.rfind(')');  // a name may contain any character
  if (name_end == std::string::npos) return;
  const std::vector<absl::string_view> fields = Words(absl::string_view(stat).substr(name_end + 1));
  for (size_t field = 14; field <= 17; ++field) use->cpu += OfTicks(Number(fields, field - 3));
  static const int64_t page = sysconf(_SC_PAGESIZE);
  const std::string memory = ReadFile(folder + "/statm").value_or("");
  use->memory += Number(Words(memory), 1) * page;
}

void ReadMachine(const std::string& root, rendezvous::NodeUse* use) {
  const std::string stat = ReadFile(root + "/proc/stat").value_or("");
  for (const absl::string_view line : absl::StrSplit(stat, '\n')) {
    if (!absl::StartsWith(line, "cpu")) continue;
    const std::vector<absl::string_view> words = Words(line);
    if (words[0] != "cpu") {
      ++use->machine_cpus;
      continue;
    }
    for (const size_t field : {1, 2, 3, 6, 7}) use->cpu += OfTicks(Number(words, field));  // not idle, iowait
  }
  int64_t available = 0;
  const std::string meminfo = ReadFile(root + "/proc/meminfo").value_or("");
  for (const absl::string_view line : absl::StrSplit(meminfo, '\n')) {
    if (absl::StartsWith(line, "MemTotal:")) use->memory_total = Number(Words(line), 1) << 10;
    if (absl::StartsWith(line, "MemAvailable:")) available = Number(Words(line), 1) << 10;
  }
  if (available <= use->memory_total) use->memory = use->memory_total - available;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) use->cpus = CPU_COUNT(&allowed);
}

}  // namespace

void ReadUse(const std::string& root, rendezvous::NodeUse* use) {
  use->measured = BootNow();
  ReadMachine(root, use);
  const std::vector<ProcessInfo> processes = ListProcesses();
  for (rendezvous::WorkerUse& worker : use->workers) {
    if (worker.pid <= 0) continue;
    AddProcess(root, worker.pid, &worker);
    for (const ProcessInfo& process : DescendantsOf(static_cast<pid_t>(worker.pid), processes))
      AddProcess(root, process.pid, &worker);
  }
}

}  // namespace mtrun::launcher
