// Every flag of mtrun: name, default, help, bounds. The one list that flags, PET_* variables, --config keys
// and --help share.
#pragma once

#include <vector>

#include "base/settings.h"

namespace mtrun::launcher {

std::vector<SettingSpec> OptionTable();

}  // namespace mtrun::launcher
