#include "base/folder_names.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/posix.h"

namespace mtrun {

std::vector<std::string> NamesIn(const std::string& folder, std::error_code* error) {
  std::error_code ignored;
  std::error_code& why = error != nullptr ? *error : ignored;
  std::vector<std::string> names;
  // A range-for would throw if the folder disappears during the loop.
  for (std::filesystem::directory_iterator entry(folder, why), end; !why && entry != end;
       entry.increment(why))
    names.push_back(entry->path().filename());
  std::ranges::sort(names);
  return names;
}

absl::StatusOr<std::vector<std::string>> ListNames(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> names = NamesIn(folder, &error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("list ", folder));
  return names;
}

}  // namespace mtrun
