#include "datasets/files/source_path.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "datasets/files/archive_reader.h"

namespace mtrun::datasets {

namespace fs = std::filesystem;

SourcePath FindSourcePath(const std::string& path) {
  std::error_code error;
  if (fs::exists(path, error)) return {.file = path, .inside = ""};
  for (size_t slash = path.rfind('/'); slash != std::string::npos && slash > 0;
       slash = path.rfind('/', slash - 1)) {
    const std::string file = path.substr(0, slash);
    if (!HasArchiveName(file) || !fs::is_regular_file(file, error)) continue;
    const absl::string_view inside = absl::StripSuffix(absl::string_view(path).substr(slash + 1), "/");
    return {.file = file, .inside = inside.empty() ? "" : absl::StrCat(inside, "/")};
  }
  return {.file = path, .inside = ""};
}

}  // namespace mtrun::datasets
