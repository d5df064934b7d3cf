// Reads both ends of a file of JSON lines, so that a writer can continue another one's file of any length.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace mtrun::checkpoints {

/// Maximum length of a line, and of what is read of the first line.
inline constexpr int64_t kMaxLineBytes = 128 << 10;

struct JsonLinesEnd {
  std::string first_line;               // "" in an empty file
  std::vector<std::string> last_lines;  // complete lines of at least the last 64 KiB, oldest first; all lines
                                        // of a short file
  std::string unfinished_line;          // text after the last newline; "": none
};

/// Returns the step after one of these lines: {"step": N} or, if steps are taken back, {"rewind": N}. Returns
/// nullopt for other lines.
std::optional<int64_t> StepAfter(const nlohmann::json& line);

/// Reads both ends. A missing file counts as empty.
absl::StatusOr<JsonLinesEnd> ReadJsonLinesEnd(const std::string& path);

}  // namespace mtrun::checkpoints
