#include "mtdata/set_table.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/folder_names.h"
#include "datasets/files/progress.h"
#include "datasets/packed/set_files.h"
#include "nlohmann/json.hpp"
#include "web/static_path.h"

namespace mtrun::mtdata {
namespace {

namespace fs = std::filesystem;

constexpr int kDepth = 2;
constexpr size_t kMaxSets = 1000;

/// Returns whether the set's files exist and no link on their paths leads out of the root.
bool LiesBelow(int root, const std::string& name, const datasets::Index& index) {
  const auto is_there = [&](const std::string& file) {
    const std::vector<std::string> names =
        absl::StrSplit(absl::StrCat(name, "/", file), '/', absl::SkipEmpty());
    return web::OpenBelow(root, names).ok();
  };
  if (!is_there(datasets::kIndexFile)) return false;
  return std::all_of(index.splits.begin(), index.splits.end(),
                     [&](const auto& split) { return is_there(datasets::ShardFile(split.first, 0)); });
}

void Look(const std::string& root, const std::string& name, int depth, std::vector<ServedSet>& sets) {
  const std::string folder = name.empty() ? root : absl::StrCat(root, "/", name);
  std::error_code error;
  if (sets.size() >= kMaxSets) return;
  if (fs::exists(folder + "/" + datasets::kIndexFile, error)) {
    absl::StatusOr<datasets::Index> index = datasets::ReadIndex(folder);
    if (index.ok()) sets.push_back({name, *std::move(index)});
    return;
  }
  if (depth == kDepth) return;
  for (const std::string& leaf : NamesIn(folder)) {
    if (leaf.front() == '.' || !fs::is_directory(absl::StrCat(folder, "/", leaf), error)) continue;
    Look(root, name.empty() ? leaf : absl::StrCat(name, "/", leaf), depth + 1, sets);
  }
}

}  // namespace

absl::StatusOr<UniqueFd> OpenRoot(const std::string& root) {
  UniqueFd folder(open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return ErrnoStatus(errno, absl::StrCat("open folder ", root));
  return folder;
}

std::vector<ServedSet> FindSets(const std::string& root, std::vector<std::string>* outside) {
  std::vector<ServedSet> sets;
  Look(root, "", 0, sets);
  const absl::StatusOr<UniqueFd> opened = OpenRoot(root);
  std::erase_if(sets, [&](const ServedSet& set) {
    if (opened.ok() && LiesBelow(opened->get(), set.name, set.index)) return false;
    if (outside != nullptr) outside->push_back(set.name);
    return true;
  });
  std::sort(sets.begin(), sets.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return sets;
}

std::string TableOf(const std::vector<ServedSet>& sets) {
  size_t width = 4;
  for (const ServedSet& set : sets) width = std::max(width, set.name.size());
  std::string table =
      absl::StrFormat("%-*s %12s %10s  %-12s  %s\n", width, "name", "images", "MiB", "digest", "splits");
  for (const ServedSet& set : sets) {
    const std::string splits = absl::StrJoin(
        set.index.splits, " ", [](std::string* out, const auto& split) { out->append(split.first); });
    absl::StrAppendFormat(&table, "%-*s %12s %10.1f  %-12s  %s\n", width, set.name.empty() ? "/" : set.name,
                          datasets::WithCommas(set.index.images()),
                          static_cast<double>(set.index.bytes()) / (1 << 20),
                          datasets::IndexDigest(set.index).substr(0, 12), splits);
  }
  return table;
}

std::string JsonOf(const std::vector<ServedSet>& sets) {
  nlohmann::json list = nlohmann::json::array();
  for (const ServedSet& set : sets) {
    list.push_back({{"name", set.name},
                    {"digest", datasets::IndexDigest(set.index)},
                    {"images", set.index.images()},
                    {"bytes", set.index.bytes()}});
  }
  return list.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

bool IsFileOfSet(const std::vector<std::string>& names) {
  if (names.empty()) return false;
  const std::string& leaf = names.back();
  if (leaf == datasets::kIndexFile) return true;
  return names.size() >= 2 && datasets::IsShardName(leaf);
}

}  // namespace mtrun::mtdata
