// The ends of a file of JSON lines, for a writer that continues where another one stopped, however long the
// file has become.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace mtrun::checkpoints {

/// No line is longer, nor is more read of a first one.
inline constexpr int64_t kMostLineBytes = 128 << 10;

struct JsonLinesEnd {
  std::string first_line;               // "" in an empty file
  std::vector<std::string> last_lines;  // complete ones of the last 64 KiB at least, oldest first; the
                                        // first line is among them in a short file
  std::string unfinished_line;          // what follows the last newline
  bool unfinished = false;
};

/// The step that follows one of these lines: {"step": N} or, steps taken back, {"rewind": N}; nothing for
/// other lines.
std::optional<int64_t> StepAfter(const nlohmann::json& line);

/// A file that is not there is an empty one.
absl::StatusOr<JsonLinesEnd> ReadJsonLinesEnd(const std::string& path);

}  // namespace mtrun::checkpoints
