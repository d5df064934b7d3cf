// --rdzv_conf KEY=VALUE,...: one row a key makes reading, help and "did you mean".
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "launcher/cli/options.h"

namespace mtrun::launcher {

/// Reads one pair. `fixed`: the back-end is static, whose `timeout` bounds the joining. kInvalidArgument
/// names key, value and what is allowed, or the nearest key.
absl::Status ReadConfPair(absl::string_view key, absl::string_view value, bool fixed, Options* options);

/// The keys that mean something here, in one sentence for --help.
std::string ConfHelp();

}  // namespace mtrun::launcher
