#include "launcher/cli/machine.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/folder_names.h"
#include "base/posix.h"
#include "base/processors.h"
#include "base/value_or.h"
#include "launcher/cli/slurm_step.h"

namespace mtrun::launcher {
namespace {

constexpr char kGpuFolder[] = "/proc/driver/nvidia/gpus";

/// Parses all of `text` as an unsigned number; -1 if it is not one.
int WholeNumber(absl::string_view text) {
  int number = -1;
  const bool digits = text.find_first_not_of("0123456789") == absl::string_view::npos;
  return digits && absl::SimpleAtoi(text, &number) ? number : -1;
}

/// Returns the minor number of the listed GPU's device file; -1 if the driver does not report it.
int DeviceMinor(const std::string& folder) {
  const std::string information = ReadFile(folder + "/information").value_or("");
  for (absl::string_view line : absl::StrSplit(information, '\n')) {
    if (absl::ConsumePrefix(&line, "Device Minor:")) return WholeNumber(absl::StripAsciiWhitespace(line));
  }
  return -1;
}

/// Returns the leading whole number of `entry`, as CUDA reads it; -1 if there is none.
int LeadingNumber(absl::string_view entry) {
  size_t digits = 0;
  while (digits < entry.size() && std::isdigit(static_cast<unsigned char>(entry[digits]))) ++digits;
  int number = -1;
  return absl::SimpleAtoi(entry.substr(0, digits), &number) ? number : -1;
}

}  // namespace

GpuFiles FindGpuFiles(const std::string& root) {
  GpuFiles files;
  for (const std::string& name : NamesIn(root + "/dev")) {
    const int number = absl::StartsWith(name, "nvidia") ? WholeNumber(absl::StripPrefix(name, "nvidia")) : -1;
    if (number < 0) continue;
    files.present.push_back(number);
    // access() includes the device control group; opening the file would make an idle driver start the GPU.
    if (access(absl::StrCat(root, "/dev/", name).c_str(), R_OK | W_OK) == 0) files.usable.push_back(number);
  }
  return files;
}

std::vector<std::string> ListedGpus(const std::string& root) {
  std::vector<std::string> addresses = NamesIn(root + kGpuFolder);
  for (std::string& address : addresses) absl::AsciiStrToLower(&address);
  return addresses;
}

std::vector<std::string> GpuAddresses(const std::string& root) {
  const GpuFiles files = FindGpuFiles(root);
  if (files.present.empty()) return ListedGpus(root);
  std::vector<std::string> addresses;
  for (std::string name : NamesIn(root + kGpuFolder)) {
    const int minor = DeviceMinor(absl::StrCat(root, kGpuFolder, "/", name));
    if (minor >= 0 && std::ranges::find(files.usable, minor) == files.usable.end()) continue;
    absl::AsciiStrToLower(&name);
    addresses.push_back(std::move(name));
  }
  // If the driver reports no minor numbers: at most as many as there are files.
  addresses.resize(std::min(addresses.size(), files.usable.size()));
  return addresses;
}

int CountGpus(const std::string& root) {
  return static_cast<int>(ListedGpus(root).empty() ? FindGpuFiles(root).usable.size()
                                                   : GpuAddresses(root).size());
}

std::vector<std::string> VisibleGpus(int devices, const EnvironmentMap& environment) {
  std::vector<std::string> visible;
  const auto found = environment.find("CUDA_VISIBLE_DEVICES");
  if (found == environment.end()) {
    for (int i = 0; i < devices; ++i) visible.push_back(absl::StrCat(i));
    return visible;
  }
  std::string kind;  // the first entry decides between numbers and names
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
    if (std::ranges::find(visible, name) != visible.end()) return {};
    visible.push_back(name);
    if (kind == "MIG-") break;
  }
  if (static_cast<int>(visible.size()) > devices) visible.resize(static_cast<size_t>(devices));
  return visible;
}

MachineFacts LookAtMachine(const EnvironmentMap& environment, const std::string& root) {
  MachineFacts facts;
  facts.cpus = UsableProcessors(root);
  if (int cpus = 0; absl::SimpleAtoi(ValueOr(environment, "SLURM_CPUS_ON_NODE"), &cpus) && cpus > 0)
    facts.cpus = std::min(facts.cpus, cpus);
  facts.in_slurm_shell = IsInSlurmShell(environment);
  facts.gpus = static_cast<int>(VisibleGpus(CountGpus(root), environment).size());
  return facts;
}

}  // namespace mtrun::launcher
