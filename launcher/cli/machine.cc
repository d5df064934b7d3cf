#include "launcher/cli/machine.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/processors.h"

namespace mtrun::launcher {
namespace {

namespace fs = std::filesystem;

/// nvidia0, nvidia1, ..., not nvidiactl.
int CountDeviceFiles(const std::string& root) {
  int count = 0;
  for (const std::string& name : NamesIn(root + "/dev")) {
    if (!name.starts_with("nvidia") || name.size() == 6) continue;
    const auto digit = [](unsigned char c) { return std::isdigit(c) != 0; };
    count += std::all_of(name.begin() + 6, name.end(), digit) ? 1 : 0;
  }
  return count;
}

/// The whole number that `entry` begins with, as CUDA reads it; -1 for none.
int LeadingNumber(absl::string_view entry) {
  size_t digits = 0;
  while (digits < entry.size() && std::isdigit(static_cast<unsigned char>(entry[digits]))) ++digits;
  int number = -1;
  return absl::SimpleAtoi(entry.substr(0, digits), &number) ? number : -1;
}

}  // namespace

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator item(folder, error), end; !error && item != end; item.increment(error))
    names.push_back(item->path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> GpuAddresses(const std::string& root) {
  std::vector<std::string> addresses = NamesIn(root + "/proc/driver/nvidia/gpus");
  for (std::string& address : addresses) absl::AsciiStrToLower(&address);
  return addresses;
}

int CountGpus(const std::string& root) {
  const int listed = static_cast<int>(GpuAddresses(root).size()), files = CountDeviceFiles(root);
  return listed == 0 || files == 0 ? std::max(listed, files) : std::min(listed, files);
}

std::vector<std::string> VisibleGpus(int devices, const EnvironmentMap& environment) {
  std::vector<std::string> visible;
  const auto found = environment.find("CUDA_VISIBLE_DEVICES");
  if (found == environment.end()) {
    for (int i = 0; i < devices; ++i) visible.push_back(absl::StrCat(i));
    return visible;
  }
  std::string kind;  // the first entry decides whether numbers or names are meant
  for (absl::string_view entry : absl::StrSplit(found->second, ',')) {
    entry = absl::StripAsciiWhitespace(entry);
    std::string name(entry);
    if (visible.empty()) {
      kind = absl::StartsWith(entry, "MIG-") ? "MIG-" : absl::StartsWith(entry, "GPU-") ? "GPU-" : "";
    }
    if (kind.empty()) {
      const int index = LeadingNumber(entry);
      if (index < 0 || index >= devices) break;
      name = absl::StrCat(index);
    } else if (!absl::StartsWith(entry, kind)) {
      break;
    }
    if (std::find(visible.begin(), visible.end(), name) != visible.end()) return {};
    visible.push_back(name);
    if (kind == "MIG-") break;
  }
  if (static_cast<int>(visible.size()) > devices) visible.resize(static_cast<size_t>(devices));
  return visible;
}

MachineFacts LookAtMachine(const EnvironmentMap& environment, const std::string& root) {
  MachineFacts facts;
  facts.cpus = UsableProcessors(root);
  const auto slurms = environment.find("SLURM_CPUS_ON_NODE");
  if (int cpus = 0; slurms != environment.end() && absl::SimpleAtoi(slurms->second, &cpus) && cpus > 0)
    facts.cpus = std::min(facts.cpus, cpus);
  facts.gpus = static_cast<int>(VisibleGpus(CountGpus(root), environment).size());
  return facts;
}

}  // namespace mtrun::launcher
