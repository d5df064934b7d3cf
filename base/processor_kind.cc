#include "base/processor_kind.h"

#include <fstream>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/value_or.h"

namespace mtrun {
namespace {

/// Returns the first processor's "name : value" lines.
std::map<std::string, std::string> FirstProcessor(const std::string& path) {
  std::map<std::string, std::string> facts;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    facts.emplace(absl::StripAsciiWhitespace(line.substr(0, colon)),
                  absl::StripAsciiWhitespace(line.substr(colon + 1)));
  }
  return facts;
}

}  // namespace

std::string ProcessorKind(const std::string& root) {
  std::map<std::string, std::string> facts = FirstProcessor(root + "/proc/cpuinfo");
  if (facts.contains("vendor_id"))
    return absl::StrCat(facts["vendor_id"], " family ", facts["cpu family"], " model ", facts["model"]);
  if (facts.contains("CPU implementer"))
    return absl::StrCat("ARM implementer ", facts["CPU implementer"], " part ", facts["CPU part"]);
  return "an unknown processor";
}

std::string ProcessorName(const std::string& root) {
  return ValueOr(FirstProcessor(root + "/proc/cpuinfo"), "model name", "unknown");
}

}  // namespace mtrun
