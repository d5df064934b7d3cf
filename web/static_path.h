// Maps a request's path to a file below a folder, and opens it so that files outside the folder can never be
// reached.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/posix.h"
#include "web/file_answer.h"

namespace mtrun::web {

/// Replaces each "%20" by its byte. Nothing if a percent sign is not followed by two hexadecimal digits.
std::optional<std::string> PercentDecoded(std::string_view text);

/// Returns the percent-decoded names along a request's path: "/a/b%20c" is {"a", "b c"}, "/" is none. Nothing
/// if a name is not allowed here: ".", "..", hidden or empty names, a control character, a backslash, a
/// decoded slash, a bad escape. Pure.
std::optional<std::vector<std::string>> SplitPath(std::string_view path);

struct OpenedFile {
  UniqueFd fd;
  FileFacts facts;
};
/// Opens an ordinary file below the folder with descriptor `root`. Symbolic links are followed if they stay
/// below it. kNotFound if the file does not exist, is outside or is not an ordinary file; another error if
/// this cannot be determined now.
absl::StatusOr<OpenedFile> OpenBelow(int root, const std::vector<std::string>& names);

}  // namespace mtrun::web
