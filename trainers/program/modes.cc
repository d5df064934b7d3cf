#include "trainers/program/modes.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mtrun::trainers {

std::optional<absl::StatusOr<int>> RunMode(Run& run) {
  std::vector<std::string> asked;
  for (const char* mode : {"evaluate", "predict", "export"}) {
    if (run.settings.IsSet(mode)) asked.push_back(absl::StrCat("--", mode));
  }
  if (asked.empty()) return std::nullopt;
  if (asked.size() > 1)
    return absl::InvalidArgumentError(absl::StrCat(absl::StrJoin(asked, " and "), " exclude each other"));
  if (Asked(run.settings, "check_settings")) return 0;
  if (asked.front() == "--evaluate") return EvaluateMode(run);
  return asked.front() == "--predict" ? PredictMode(run) : ExportMode(run);
}

}  // namespace mtrun::trainers
