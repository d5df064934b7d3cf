#include "datasets/import/folder_layout.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/utf8.h"
#include "datasets/files/file_tree.h"
#include "datasets/files/shell_word.h"
#include "datasets/files/tree_listing.h"
#include "datasets/import/image_folder.h"

namespace mtrun::datasets {
namespace {

namespace fs = std::filesystem;

constexpr int kSiblingsToLookAt = 1000;

using LayoutNames = std::vector<absl::string_view>;

std::string Command(const std::string& source, const ImportWords& words, absl::string_view flags) {
  return absl::StrCat("mtdata import ", ShellWord(source), " ", ShellWord(words.destination), flags);
}

/// The images of a source that a name like "Training" marks as a split.
struct MeantSplit {
  std::string folder;  // the first one: "set/Training"
  size_t depth = 0;    // number of its names
  LayoutNames image;   // the names of its deepest image
  LayoutNames common;  // the folders that contain all folders of its images
  bool has_classes() const { return image.size() >= depth + 2; }
};

/// Leaves only the folders that also contain the folder of an image.
void Narrow(LayoutNames& common, const LayoutNames& names) {
  const size_t most = std::min(common.size(), names.size() - 2);
  const auto first =
      std::mismatch(common.begin(), common.begin() + static_cast<std::ptrdiff_t>(most), names.begin());
  common.erase(first.first, common.end());
}

/// Returns true if a path could be an image's, by its names.
bool MayBeImage(const LayoutNames& names) { return !IsInHiddenFolder(names) && !IsNoImageName(names.back()); }

/// Finds the splits by the first name of each path that means one.
std::map<absl::string_view, MeantSplit> FindMeantSplits(const std::vector<absl::string_view>& paths) {
  std::map<absl::string_view, MeantSplit> splits;
  for (const absl::string_view path : paths) {
    const LayoutNames names = absl::StrSplit(path, '/');
    if (!MayBeImage(names)) continue;
    const auto meant = std::find_if(names.begin(), names.end() - 1,
                                    [](absl::string_view name) { return !SplitMeant(name).empty(); });
    if (meant == names.end() - 1) continue;
    const std::string folder = absl::StrJoin(names.begin(), meant + 1, "/");
    MeantSplit& split = splits[SplitMeant(*meant)];
    if (split.folder.empty() || folder < split.folder)
      split = {.folder = folder,
               .depth = static_cast<size_t>(meant + 1 - names.begin()),
               .image = names,
               .common = {names.begin(), names.end() - 2}};
    if (folder != split.folder) continue;
    Narrow(split.common, names);
    if (names.size() > split.image.size()) split.image = names;
  }
  return splits;
}

/// Returns the command for splits whose folders have other names; "" if these are not two or more splits.
std::string CommandForSplits(const std::vector<absl::string_view>& paths, const ImportWords& words) {
  const auto splits = FindMeantSplits(paths);
  const auto train = splits.find("train");
  if (train == splits.end() || !train->second.has_classes() || splits.size() < 2) return "";
  // Folders between the split's and the classes': in "seg_train/seg_train/sea/1.jpg" one.
  const size_t common = train->second.common.size(), depth = train->second.depth;
  const size_t between = common > depth ? common - depth : 0;
  const auto source_of = [&](const MeantSplit& split) {
    const size_t names = std::min(split.depth + between, split.image.size() - 2);
    const auto end = split.image.begin() + static_cast<std::ptrdiff_t>(names);
    return absl::StrCat(words.source, "/", absl::StrJoin(split.image.begin(), end, "/"));
  };
  std::string flags;
  std::vector<std::string> folders;
  for (const char* name : {"train", "val", "test"}) {
    const auto found = splits.find(name);
    if (found == splits.end() || !found->second.has_classes()) continue;
    folders.push_back(found->second.folder + "/");
    if (found != train) absl::StrAppend(&flags, " --", name, "_source ", ShellWord(source_of(found->second)));
  }
  if (flags.empty()) flags = " --test_share 0.1";
  return absl::StrCat(folders.size() > 1 ? "the splits are called " : "the images to train on are in ",
                      absl::StrJoin(folders, " and "),
                      "; import them with: ", Command(source_of(train->second), words, flags));
}

std::string WithoutSlash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

absl::Status NoClassFolders(size_t images, const ImportWords& words) {
  const std::string unlabelled = Command(words.source, words, " --unlabelled");
  const std::string found = absl::StrCat(words.source, " holds ", images, " image", images == 1 ? "" : "s",
                                         " and no class folders; ");
  if (words.above.empty())
    return absl::InvalidArgumentError(absl::StrCat(found, "import without classes with: ", unlabelled));
  return absl::InvalidArgumentError(
      absl::StrCat(found, "if it is one class of several, import all with: ", Command(words.above, words, ""),
                   ", or without classes: ", unlabelled));
}

}  // namespace

absl::string_view SplitMeant(absl::string_view name) {
  static const auto& kWords = *new std::map<std::string, absl::string_view>{
      {"train", "train"}, {"training", "train"}, {"trainset", "train"}, {"val", "val"},
      {"valid", "val"},   {"validation", "val"}, {"validate", "val"},   {"dev", "val"},
      {"test", "test"},   {"testing", "test"},   {"testset", "test"}};
  absl::string_view meant;
  for (const absl::string_view word : absl::StrSplit(name, absl::ByAnyChar("-_. "))) {
    const auto found = kWords.find(absl::AsciiStrToLower(word));
    if (found == kWords.end()) continue;
    if (!meant.empty() && meant != found->second) return "";
    meant = found->second;
  }
  return meant;
}

absl::Status CheckLayout(const std::vector<absl::string_view>& paths, const ImportWords& given) {
  ImportWords words = given;
  words.source = WithoutSlash(words.source);
  size_t images = 0;
  bool in_folders = false;
  std::set<absl::string_view> trees;  // folders of the images' folders
  for (const absl::string_view path : paths) {
    const LayoutNames names = absl::StrSplit(path, '/');
    if (!MayBeImage(names)) continue;
    if (IsInSplitFolder(names)) return absl::OkStatus();
    ++images;
    in_folders |= names.size() > 1;
    if (names.size() > 1) trees.insert(path.substr(0, names[names.size() - 2].data() - path.data()));
  }
  if (images == 0)
    return absl::InvalidArgumentError(
        absl::StrCat(words.source, " holds no images; mtdata import --help lists what can be imported"));
  if (!in_folders) return NoClassFolders(images, words);
  const std::string splits = trees.size() > 1 ? CommandForSplits(paths, words) : "";
  if (splits.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(AsPlainText(absl::StrCat(words.source, ": ", splits)));
}

std::string FolderOfClasses(const std::string& source) {
  std::error_code error;
  const fs::path path = fs::weakly_canonical(source, error);
  if (error || !fs::is_directory(path, error)) return "";
  int looked_at = 0;
  for (fs::directory_iterator entry(path.parent_path(), error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    if (++looked_at > kSiblingsToLookAt) break;
    const std::string name = entry->path().filename().string();
    if (entry->path() == path || IsInHiddenFolder({name, ""}) || !entry->is_directory(ignored)) continue;
    if (!HoldsImages(entry->path().string())) continue;
    const fs::path above = path.parent_path();
    const bool is_split = IsSplitFolder(above.filename().string());
    return (is_split ? above.parent_path() : above).string();
  }
  return "";
}

}  // namespace mtrun::datasets
