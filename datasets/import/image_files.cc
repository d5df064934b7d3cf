#include "datasets/import/image_files.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "datasets/import/folder_layout.h"
#include "datasets/import/ground_truth.h"

namespace mtrun::datasets {
namespace {

namespace fs = std::filesystem;

/// An image of val, split into folder and name.
struct Unlabelled {
  size_t path = 0;
  absl::string_view folder, file;  // "set/val/", "1.jpg"
};

/// Returns the images below val/ (or valid/, validation/), sorted by name.
std::vector<Unlabelled> FindVal(const std::vector<absl::string_view>& paths) {
  std::vector<Unlabelled> found;
  for (size_t i = 0; i < paths.size(); ++i) {
    const std::vector<absl::string_view> names = absl::StrSplit(paths[i], '/');
    const auto split = std::find_if(names.begin(), names.end() - 1, IsSplitFolder);
    if (split == names.end() - 1 || !absl::StartsWith(*split, "val") || IsNoImageName(names.back())) continue;
    const auto end = static_cast<size_t>(split->data() + split->size() + 1 - paths[i].data());
    found.push_back({.path = i, .folder = paths[i].substr(0, end), .file = names.back()});
  }
  std::sort(found.begin(), found.end(),
            [](const Unlabelled& a, const Unlabelled& b) { return a.file < b.file; });
  return found;
}

/// Moves the paths of val's images into folders of their classes. `texts` stores the new paths.
absl::Status LabelVal(const ImportOptions& options, std::vector<absl::string_view>& paths,
                      std::deque<std::string>& texts) {
  MT_ASSIGN_OR_RETURN(const std::string text, ReadFile(options.val_labels));
  std::optional<ClassList> classes;
  if (!options.class_list.empty()) {
    MT_ASSIGN_OR_RETURN(const std::string list, ReadFile(options.class_list));
    MT_ASSIGN_OR_RETURN(classes, Annotate(ParseClassList(list), options.class_list));
  }
  const std::vector<Unlabelled> images = FindVal(paths);
  if (images.empty())
    return absl::InvalidArgumentError(
        "--val_labels: the source has no val images; give --val_source, or a source with val/");
  std::vector<absl::string_view> files;
  for (const Unlabelled& image : images) files.push_back(image.file);
  MT_ASSIGN_OR_RETURN(const auto found, Annotate(FindClasses(text, classes, files), options.val_labels));
  for (size_t i = 0; i < images.size(); ++i) {
    texts.push_back(absl::StrCat(images[i].folder, found[i], "/", images[i].file));
    paths[images[i].path] = texts.back();
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<absl::string_view> ImageFiles::Paths() const {
  std::vector<absl::string_view> paths;
  paths.reserve(tree->files().size());
  for (const SourceFile& file : tree->files()) paths.push_back(file.path);
  return paths;
}

std::string SpoolFolder(const ImportOptions& options) {
  std::error_code error;
  fs::path path = fs::absolute(options.destination, error).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "out/"
  return path.parent_path().string();
}

absl::StatusOr<ImageFiles> FindImageFiles(const ImportOptions& options) {
  const bool apart = !options.val_source.empty() || !options.test_source.empty();
  std::vector<TreeSource> trees{{.path = options.source, .prefix = apart ? "train/" : ""}};
  if (!options.val_source.empty()) trees.push_back({.path = options.val_source, .prefix = "val/"});
  if (!options.test_source.empty()) trees.push_back({.path = options.test_source, .prefix = "test/"});
  ImageFiles found;
  MT_ASSIGN_OR_RETURN(found.tree, OpenFileTree(trees, SpoolFolder(options), options.tree.unlabelled));
  std::vector<absl::string_view> paths = found.Paths();
  std::deque<std::string> texts;
  if (!options.val_labels.empty()) MT_RETURN_IF_ERROR(LabelVal(options, paths, texts));
  const bool is_whole = !apart && options.val_labels.empty() && !options.tree.unlabelled;
  ImportWords words{.source = options.source, .destination = options.destination};
  if (is_whole && !CheckLayout(paths, words).ok()) {
    words.above = FolderOfClasses(options.source);
    return CheckLayout(paths, words);
  }
  MT_ASSIGN_OR_RETURN(found.listing, Annotate(ListTree(paths, options.tree), options.source));
  found.listing.left_out.AddPassedOver(found.tree->passed_over());
  return found;
}

}  // namespace mtrun::datasets
