// From a request's path to a file below a folder: what may be asked for, and opening it so that nothing
// outside of the folder is ever reached.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/posix.h"
#include "web/file_answer.h"

namespace mtrun::web {

/// The names along a request's path, percent-decoded: "/a/b%20c" is {"a", "b c"}, "/" is none. Nothing for
/// what no file may be called here: "." and "..", hidden names, an empty name, a control character, a
/// backslash, a decoded slash, a bad escape. Pure.
std::optional<std::vector<std::string>> SplitPath(std::string_view path);

struct OpenedFile {
  UniqueFd fd;
  FileFacts facts;
};
/// Opens an ordinary file below the folder that `root` is a descriptor of. Symbolic links are followed as
/// long as they stay below it. kNotFound for all that is not there, lies outside, or is no ordinary file; any
/// other error where that cannot be said now.
absl::StatusOr<OpenedFile> OpenBelow(int root, const std::vector<std::string>& names);

}  // namespace mtrun::web
