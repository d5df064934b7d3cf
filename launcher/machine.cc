#include "launcher/machine.h"

#include <sched.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>
#include <thread>

namespace mtrun::launcher {
namespace {

namespace fs = std::filesystem;

int CountEntries(const char* folder, const std::string& prefix, bool digits_follow) {
  int count = 0;
  std::error_code error;
  for (fs::directory_iterator item(folder, error), end; !error && item != end; item.increment(error)) {
    const std::string name = item->path().filename();
    if (!name.starts_with(prefix)) continue;
    const std::string rest = name.substr(prefix.size());
    const auto digit = [](unsigned char c) { return std::isdigit(c) != 0; };
    if (!digits_follow || (!rest.empty() && std::all_of(rest.begin(), rest.end(), digit))) ++count;
  }
  return count;
}

}  // namespace

MachineFacts LookAtMachine(const EnvironmentMap& environment) {
  MachineFacts facts;
  cpu_set_t allowed;
  facts.cpus = sched_getaffinity(0, sizeof allowed, &allowed) == 0
                   ? CPU_COUNT(&allowed)
                   : static_cast<int>(std::thread::hardware_concurrency());
  facts.cpus = std::max(facts.cpus, 1);
  int devices = CountEntries("/proc/driver/nvidia/gpus", "", false);
  // Some containers hide the driver's folder but have the device files.
  if (devices == 0) devices = CountEntries("/dev", "nvidia", true);
  facts.gpus = VisibleGpus(devices, environment);
  return facts;
}

}  // namespace mtrun::launcher
