// --rdzv_conf KEY=VALUE,...: one row per key, used for reading, help and "did you mean".
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "launcher/cli/options.h"

namespace mtrun::launcher {

/// Reads one pair. `fixed`: the back-end is static, whose `timeout` limits joining. kInvalidArgument names
/// the key, its value and the allowed values. An unknown key adds a note with the nearest key.
absl::Status ReadConfPair(absl::string_view key, absl::string_view value, bool fixed, Options* options);

/// Returns one sentence for --help with the keys that have an effect here.
std::string ConfHelp();

}  // namespace mtrun::launcher
