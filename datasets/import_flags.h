// The flags of `mtdata import`: a table, and what they say.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/settings.h"
#include "datasets/import.h"

namespace mtrun::datasets {

std::vector<SettingSpec> ImportSpecs();
/// kInvalidArgument names the flag.
absl::StatusOr<ImportOptions> ReadImportFlags(const Settings& settings, const std::string& source,
                                              const std::string& destination);

}  // namespace mtrun::datasets
