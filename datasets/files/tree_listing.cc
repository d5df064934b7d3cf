#include "datasets/files/tree_listing.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "datasets/files/class_share.h"
#include "datasets/files/file_tree.h"

namespace mtrun::datasets {
namespace {

constexpr char kExpected[] =
    "expected train/<class>/<image> with val/<class>/<image> and test/<class>/<image>, or <class>/<image>";

/// Returns an archive's file name as printable text.
std::string Plain(absl::string_view name) { return AsPlainText({name.data(), name.size()}); }

using PathNames = std::vector<absl::string_view>;

/// Returns the path before one of its names, "" or "a/b".
absl::string_view Before(absl::string_view path, absl::string_view name) {
  const auto begin = static_cast<size_t>(name.data() - path.data());
  return begin == 0 ? absl::string_view() : path.substr(0, begin - 1);
}
/// Returns the path after one of its names.
absl::string_view After(absl::string_view path, absl::string_view name) {
  return path.substr(static_cast<size_t>(name.data() - path.data()) + name.size() + 1);
}

/// Returns nullopt if the file is outside of the split folders.
absl::StatusOr<std::optional<NamedFile>> TakeApart(absl::string_view path, const PathNames& names,
                                                   bool has_splits, bool unlabelled) {
  const auto split = has_splits ? std::find_if(names.begin(), names.end(), IsSplitFolder) : names.begin();
  const auto below = names.end() - split - (has_splits ? 1 : 0);  // <class> and <file>, or less, or more
  if (below < 1) return std::nullopt;
  if (names.back().empty())  // a folder that was not entered
    return absl::InvalidArgumentError(
        absl::StrCat(Plain(path), " is nested too deeply, or is a link to a folder"));
  NamedFile file{.prefix = has_splits ? Before(path, *split) : absl::string_view(),
                 .folder = has_splits ? *split : absl::string_view(),
                 .class_name = {},
                 .file = names.back()};
  if (unlabelled || IsNoImageName(file.file)) return file;
  if (!has_splits) {  // the class is the last folder, unless TakeFirstFolders finds another
    if (below < 2) return std::nullopt;
    file.class_name = names[names.size() - 2];
    file.prefix = Before(path, file.class_name);
    return file;
  }
  if (below == 1)
    return absl::InvalidArgumentError(absl::StrCat(Plain(path), " is not in a class folder; ", kExpected,
                                                   "; --unlabelled imports without classes"));
  file.class_name = *(split + 1);
  file.file = After(path, file.class_name);
  return file;
}

absl::string_view FolderOf(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == absl::string_view::npos ? absl::string_view() : path.substr(0, slash);
}

/// Returns the innermost folder that contains all files in folders below it: "" or "a/b/". REQUIRES: files are
/// in folders.
absl::string_view CommonFolder(const std::vector<absl::string_view>& paths,
                               const std::vector<NamedFile>& files) {
  absl::string_view common = FolderOf(paths[files[0].path]);
  const auto contains = [](absl::string_view folder, absl::string_view path) {
    return folder.empty() || (absl::StartsWith(path, folder) && path.substr(folder.size())[0] == '/');
  };
  for (const NamedFile& file : files) {
    while (!contains(common, paths[file.path])) common = FolderOf(common);
  }
  const auto is_in = [&](const NamedFile& file) { return FolderOf(paths[file.path]) == common; };
  if (std::any_of(files.begin(), files.end(), is_in)) common = FolderOf(common);
  return common.empty() ? common : absl::string_view(common.data(), common.size() + 1);
}

/// If images are in folders of different depths, or in several trees of folders, makes the first folders the
/// classes, as torchvision's ImageFolder does.
void TakeFirstFolders(const std::vector<absl::string_view>& paths, std::vector<NamedFile>& files) {
  const auto is_other = [&](const NamedFile& file) { return file.prefix != files[0].prefix; };
  if (std::none_of(files.begin(), files.end(), is_other)) return;
  const absl::string_view root = CommonFolder(paths, files);
  for (NamedFile& file : files) {
    const absl::string_view below = paths[file.path].substr(root.size());
    file.prefix = root;
    file.class_name = below.substr(0, below.find('/'));
    file.file = below.substr(file.class_name.size() + 1);
  }
}

absl::Status CheckPrefixes(const std::vector<absl::string_view>& paths, const std::vector<NamedFile>& files) {
  for (const NamedFile& file : files) {
    if (file.prefix != files[0].prefix)
      return absl::InvalidArgumentError(absl::StrCat(Plain(paths[files[0].path]), " and ",
                                                     Plain(paths[file.path]),
                                                     " are in two different trees; import only one of them"));
  }
  return absl::OkStatus();
}

/// Refuses a single class whose images are all in folders, because these are probably the classes.
absl::Status CheckSeveralClasses(const std::vector<absl::string_view>& paths,
                                 const std::vector<NamedFile>& files) {
  const NamedFile* first = nullptr;
  for (const NamedFile& file : files) {
    if (SplitOf(file.folder) != "train") continue;
    if (first == nullptr) first = &file;
    if (file.class_name != first->class_name || !absl::StrContains(file.file, '/')) return absl::OkStatus();
  }
  if (first == nullptr) return absl::OkStatus();
  const absl::string_view path = paths[first->path];
  return absl::InvalidArgumentError(absl::StrCat(
      Plain(path.substr(0, path.size() - first->file.size() - 1)),
      "/ would be the only class, and its images are in folders; if these are the classes, import "
      "that folder"));
}

absl::Status CheckSplits(const std::vector<NamedFile>& files) {
  std::map<absl::string_view, absl::string_view> folders;  // split to the folder that it comes from
  for (const NamedFile& file : files) {
    const absl::string_view folder = folders.emplace(SplitOf(file.folder), file.folder).first->second;
    if (folder != file.folder)
      return absl::InvalidArgumentError(absl::StrCat("it has ", folder, "/ and ", file.folder,
                                                     "/, which are both the val split; remove one of them"));
  }
  if (folders.count("train") == 0)
    return absl::InvalidArgumentError(absl::StrCat("no images to train on: ", kExpected));
  return absl::OkStatus();
}

/// Maps class names to labels.
class Labels {
 public:
  Labels(const std::vector<NamedFile>& files, const TreeOptions& options) : names_(options.classes) {
    if (options.unlabelled) names_ = {kOneClass};
    if (names_.empty()) {
      std::set<absl::string_view> trained;
      for (const NamedFile& file : files) {
        if (SplitOf(file.folder) == "train") trained.insert(file.class_name);
      }
      for (const absl::string_view name : trained) names_.emplace_back(name);
    }
    for (size_t i = 0; i < names_.size(); ++i) by_name_[names_[i]] = static_cast<int64_t>(i);
    if (options.unlabelled) by_name_[""] = 0;
  }
  const std::vector<std::string>& names() const { return names_; }
  /// Returns -1 if train has no such class.
  int64_t Find(absl::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? -1 : found->second;
  }

 private:
  std::vector<std::string> names_;
  std::map<absl::string_view, int64_t> by_name_;  // views of names_
};

/// An image during sorting.
struct Sorted {
  absl::string_view split;
  int64_t label;
  const NamedFile* file;
};

/// Removes images whose class train lacks.
absl::StatusOr<std::vector<Sorted>> Label(const std::vector<absl::string_view>& paths,
                                          const std::vector<NamedFile>& files, const Labels& labels,
                                          bool skip_bad, LeftOut& left_out) {
  std::vector<Sorted> sorted;
  sorted.reserve(files.size());
  std::set<absl::string_view> untrained;
  for (const NamedFile& file : files) {
    const int64_t label = labels.Find(file.class_name);
    if (label >= 0) {
      sorted.push_back({SplitOf(file.folder), label, &file});
      continue;
    }
    if (!skip_bad)
      return absl::InvalidArgumentError(absl::StrCat(Plain(paths[file.path]), ": train/ has no class \"",
                                                     Plain(file.class_name),
                                                     "\"; --skip_bad leaves out such images"));
    ++left_out.untrained;
    untrained.insert(file.class_name);
  }
  for (const absl::string_view name : untrained) left_out.untrained_classes.emplace_back(name);
  return sorted;
}

}  // namespace

void LeftOut::AddOutside(absl::string_view path) {
  const size_t slash = path.rfind('/');
  const bool in_source = slash == absl::string_view::npos;
  if (IsNoImageName(in_source ? path : path.substr(slash + 1))) {
    ++others;
  } else {
    AddPassedOver({.outside = 1, .outside_folder = std::string(in_source ? "." : path.substr(0, slash))});
  }
}

void LeftOut::AddPassedOver(const LeftOut& more) {
  others += more.others;
  outside += more.outside;
  // A folder that may have been meant as a split is more informative than a file beside the split folders.
  const auto place = [](const LeftOut& of) { return std::pair(of.outside_folder == ".", of.outside_folder); };
  if (outside_folder.empty() || (more.outside > 0 && place(more) < place(*this)))
    outside_folder = more.outside_folder;
}

absl::string_view SplitOf(absl::string_view folder) {
  if (folder == "test") return "test";
  return folder.empty() || folder == "train" ? "train" : "val";
}

bool IsHiddenName(absl::string_view name) {
  return absl::StartsWith(name, ".") && name != "." && name != "..";
}

bool IsInHiddenFolder(const std::vector<absl::string_view>& names) {
  return std::any_of(names.begin(), names.end() - 1,
                     [](absl::string_view name) { return IsHiddenName(name) || name == "__MACOSX"; });
}

bool IsNoImageName(absl::string_view file) {
  static const auto& kEnds = *new std::vector<std::string>{".txt",  ".csv",  ".tsv", ".json", ".md",  ".xml",
                                                           ".html", ".yaml", ".yml", ".db",   ".ini", ".log"};
  return IsHiddenName(file) || std::any_of(kEnds.begin(), kEnds.end(), [&](const std::string& end) {
           return absl::EndsWithIgnoreCase(file, end);
         });
}

absl::StatusOr<TreeListing> ListNamed(const std::vector<absl::string_view>& paths,
                                      std::vector<NamedFile> files, const TreeOptions& options) {
  MT_RETURN_IF_ERROR(CheckSplits(files));
  MT_RETURN_IF_ERROR(TakeShares(paths, options.shares, files));
  const Labels labels(files, options);
  TreeListing listing{.classes = labels.names(), .images = {}, .left_out = {}};
  MT_ASSIGN_OR_RETURN(std::vector<Sorted> sorted,
                      Label(paths, files, labels, options.skip_bad, listing.left_out));
  // ImageFolder's order: the images of a folder before those of the folders in it.
  const auto key = [&](const Sorted& a) {
    const absl::string_view folder = FolderOf(a.file->file);
    return std::tuple(a.split, a.label, folder, a.file->file.substr(folder.size()), paths[a.file->path]);
  };
  std::sort(sorted.begin(), sorted.end(), [&](const Sorted& a, const Sorted& b) {
    return key(a) != key(b) ? key(a) < key(b) : a.file->path < b.file->path;
  });
  listing.images.reserve(sorted.size());
  for (size_t i = 0; i < sorted.size(); ++i) {
    const size_t path = sorted[i].file->path;
    if (i + 1 < sorted.size() && key(sorted[i]) == key(sorted[i + 1])) {
      if (!options.skip_bad)
        return absl::InvalidArgumentError(
            absl::StrCat(Plain(paths[path]), " occurs twice; --skip_bad uses the last one"));
      ++listing.left_out.duplicates;
      continue;
    }
    listing.images.push_back({sorted[i].split, sorted[i].label, path});
  }
  return listing;
}

absl::StatusOr<TreeListing> ListTree(const std::vector<absl::string_view>& paths,
                                     const TreeOptions& options) {
  const auto names_of = [](absl::string_view path) -> PathNames { return absl::StrSplit(path, '/'); };
  const bool has_splits = std::any_of(paths.begin(), paths.end(), [&](absl::string_view path) {
    const PathNames names = names_of(path);
    return !IsInHiddenFolder(names) && IsInSplitFolder(names);
  });
  std::vector<NamedFile> files;
  files.reserve(paths.size());
  LeftOut passed_over;
  for (size_t i = 0; i < paths.size(); ++i) {
    const PathNames names = names_of(paths[i]);
    if (IsInHiddenFolder(names)) continue;
    MT_ASSIGN_OR_RETURN(auto file, TakeApart(paths[i], names, has_splits, options.unlabelled));
    if (!file) {
      passed_over.AddOutside(paths[i]);
      continue;
    }
    file->path = i;
    if (IsNoImageName(file->file)) {
      ++passed_over.others;
    } else {
      files.push_back(*file);
    }
  }
  if (!options.unlabelled && !has_splits) TakeFirstFolders(paths, files);
  if (!options.unlabelled) MT_RETURN_IF_ERROR(CheckPrefixes(paths, files));
  if (!options.unlabelled && has_splits) MT_RETURN_IF_ERROR(CheckSeveralClasses(paths, files));
  MT_ASSIGN_OR_RETURN(TreeListing listing, ListNamed(paths, std::move(files), options));
  listing.left_out.AddPassedOver(passed_over);
  return listing;
}

}  // namespace mtrun::datasets
