// A file with the settings of several programs: YAML, a section (top-level key) for each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun {

struct FileSetting {
  std::string key;    // as it stands there
  std::string text;   // lists comma-joined, "" for no value
  std::string where;  // "path:line"
  int line = 0;       // the same
  bool operator==(const FileSetting&) const = default;
};

/// "" where the section is there.
struct MissingSectionNote {
  std::string text;
  bool misspelt = false;  // one stands there whose name is almost the same
};

/// What the section holds, in its order; nothing where it is missing, with a `note` that says so. Other
/// sections belong to other programs. Errors of the file, and kInvalidArgument with the line for values that
/// stand in no section or are neither single nor a list, for a section that stands twice, and for a second
/// document.
absl::StatusOr<std::vector<FileSetting>> ReadSettingsFile(const std::string& path, std::string_view section,
                                                          MissingSectionNote& note);

}  // namespace mtrun
