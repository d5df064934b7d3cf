// A YAML file with the settings of several programs: one section (top-level key) for each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun {

struct FileSetting {
  std::string key;    // as in the file
  std::string text;   // lists comma-joined, "" for no value
  std::string where;  // "path:line"
  int line = 0;       // the line number alone
  bool operator==(const FileSetting&) const = default;
};

/// Says that a section is missing; `text` is "" if it exists.
struct MissingSectionNote {
  std::string text;
  bool misspelt = false;  // the file has a section with almost the same name
};

/// Returns the settings of a section in order. If it is missing, returns none and says so in `note`. Other
/// sections belong to other programs and are ignored. Errors: those of reading the file, and kInvalidArgument
/// with the line for a value outside any section, a value that is neither a scalar nor a list, a repeated
/// section, or a second document.
absl::StatusOr<std::vector<FileSetting>> ReadSettingsFile(const std::string& path, std::string_view section,
                                                          MissingSectionNote& note);

}  // namespace mtrun
