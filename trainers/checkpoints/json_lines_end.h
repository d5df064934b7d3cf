// The ends of a file of JSON lines, for a writer that continues where another one stopped, however long the
// file has become.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun::checkpoints {

struct JsonLinesEnd {
  std::string first_line;               // "" in an empty file
  std::vector<std::string> last_lines;  // complete ones of about the last 64 KiB, oldest first; the first
                                        // line is among them in a short file
  std::string unfinished_line;          // what follows the last newline
  bool unfinished = false;
};

/// A file that is not there is an empty one.
absl::StatusOr<JsonLinesEnd> ReadJsonLinesEnd(const std::string& path);

}  // namespace mtrun::checkpoints
