// The flags of `mtdata import`: their table and their conversion to options.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/settings.h"
#include "datasets/import/import.h"

namespace mtrun::datasets {

std::vector<SettingSpec> ImportSpecs();
/// kInvalidArgument names the flag.
absl::StatusOr<ImportOptions> ReadImportFlags(const Settings& settings, const std::string& source,
                                              const std::string& destination);

}  // namespace mtrun::datasets
