// Runs a program for what it answers at once: a version, a help text.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"

namespace mtrun::launcher {

/// Runs `argv`, whose first word is a path, without input, and returns its standard output (at most 64 KiB of
/// it). Errors: kUnavailable if it cannot be started, kDeadlineExceeded if it has not ended after `limit` (it
/// is killed with its children), kInternal with its last line on standard error if it fails.
absl::StatusOr<std::string> AnswerOf(const std::vector<std::string>& argv, Duration limit);

}  // namespace mtrun::launcher
