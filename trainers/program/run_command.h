// Runs another program and waits for its end.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"

namespace mtrun::trainers {

/// Runs `command`, the file or a name on PATH and its arguments, with this process's environment and output.
/// After `timeout` it is killed. Returns its exit status, 128 + signal if it was killed; fails if it cannot be
/// started.
absl::StatusOr<int> RunCommand(std::vector<std::string> command, std::optional<Duration> timeout);

}  // namespace mtrun::trainers
