#include "datasets/packed/set_files.h"

#include <algorithm>
#include <filesystem>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/folder_names.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "datasets/packed/index.h"

namespace mtrun::datasets {
namespace {

namespace fs = std::filesystem;

constexpr char kDigits[] = "0123456789";

bool TakeEnd(std::string_view& name, std::string_view end) {
  if (!name.ends_with(end)) return false;
  name.remove_suffix(end.size());
  return true;
}

/// Returns the final name of the file that `name` was to become or describes: an import first writes
/// "index.json.77-0.new", "shard_00000.safetensors.part" and ".state".
std::string_view Finished(std::string_view name) {
  if (TakeEnd(name, ".new")) {
    const size_t dot = name.rfind('.');
    const bool numbered = dot != std::string_view::npos &&
                          name.find_first_not_of("0123456789-", dot + 1) == std::string_view::npos;
    if (!numbered) return "";
    name = name.substr(0, dot);
  }
  if (!TakeEnd(name, ".part")) TakeEnd(name, ".state");
  return name;
}

/// Returns the first entry that does not belong to a set; "" if there is none.
absl::StatusOr<std::string> FindForeign(const std::string& folder) {
  std::error_code ignored;
  MT_ASSIGN_OR_RETURN(const auto entries, ListNames(folder));
  for (const std::string& name : entries) {
    const fs::path path = fs::path(folder) / name;
    const fs::file_status status = fs::symlink_status(path, ignored);
    const bool ours =
        fs::is_regular_file(status) && (name == kFolderLockFile || Finished(name) == kIndexFile);
    if (ours) continue;
    if (!fs::is_directory(status) || !IsSplitName(name)) return path.string();
    MT_ASSIGN_OR_RETURN(const auto shards, ListNames(path.string()));
    for (const std::string& shard : shards) {
      const bool is_file = fs::is_regular_file(fs::symlink_status(path / shard, ignored));
      if (!is_file || !IsShardName(Finished(shard))) return (path / shard).string();
    }
  }
  return "";
}

}  // namespace

bool IsShardName(std::string_view name) {
  constexpr std::string_view kPrefix = "shard_";
  if (!name.starts_with(kPrefix) || !TakeEnd(name, ".safetensors")) return false;
  name.remove_prefix(std::min(name.size(), kPrefix.size()));
  return name.size() >= 5 && name.find_first_not_of(kDigits) == std::string_view::npos;
}

absl::Status CheckHoldsASetAlone(const std::string& folder) {
  if (!HasIndex(folder)) {
    return absl::AlreadyExistsError(
        absl::StrCat(folder, " exists and is not a packed data set (it has no ", kIndexFile,
                     " of a packed set), so --force does not replace it; move it away first"));
  }
  MT_ASSIGN_OR_RETURN(const std::string foreign, FindForeign(folder));
  if (foreign.empty()) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat(folder, " contains more than a packed data set: --force would also remove ", foreign,
                   "; move that away first"));
}

}  // namespace mtrun::datasets
