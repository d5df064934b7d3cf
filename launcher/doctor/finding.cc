#include "launcher/doctor/finding.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/terminal.h"

namespace mtrun::launcher {
namespace {

// Word and colour, by Health.
constexpr std::pair<const char*, const char*> kHealths[] = {{"ok  ", "32"}, {"warn", "33"}, {"FAIL", "31"}};
constexpr size_t kHealthColumns = 6;  // of a word, with the blanks after it

}  // namespace

std::string Render(const Findings& findings, bool colours, int columns) {
  size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.subject.size());
  std::string text;
  for (const Finding& finding : findings) {
    const auto& [word, colour] = kHealths[static_cast<size_t>(finding.health)];
    const std::string line =
        absl::StrFormat("%s  %-*s  %s%s%s", Coloured(word, colour, colours), static_cast<int>(width),
                        finding.subject, finding.found, finding.mend.empty() ? "" : ": ", finding.mend);
    absl::StrAppend(&text, BreakForPeople(line, columns, kHealthColumns + width + 2), "\n");
  }
  return text;
}

int ExitStatusOf(const Findings& findings) {
  const auto fails = [](const Finding& finding) { return finding.health == Health::kFail; };
  return std::ranges::any_of(findings, fails) ? 1 : 0;
}

std::string HumanBytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) value /= 1024, ++unit;
  const bool whole = value >= 10 || value == static_cast<double>(static_cast<uint64_t>(value));
  return whole ? absl::StrFormat("%.0f %s", value, kUnits[unit])
               : absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

}  // namespace mtrun::launcher
