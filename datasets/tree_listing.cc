#include "datasets/tree_listing.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "datasets/file_tree.h"

namespace mtrun::datasets {
namespace {

constexpr char kExpected[] =
    "expected train/<class>/<image> with val/<class>/<image> and test/<class>/<image>, or <class>/<image>";
constexpr char kOneClass[] = "image";

using Names = std::vector<absl::string_view>;

/// One path taken apart; views of it, for there may be millions.
struct Parts {
  absl::string_view prefix, folder, class_name, file;  // folder: that of the split, "" without one
  absl::string_view split;
  size_t path = 0;  // its place among the paths
};

bool IsOther(absl::string_view file) {
  static const auto& kEnds = *new std::vector<std::string>{".txt",  ".csv",  ".tsv", ".json", ".md",  ".xml",
                                                           ".html", ".yaml", ".yml", ".db",   ".ini", ".log"};
  return std::any_of(kEnds.begin(), kEnds.end(),
                     [&](const std::string& end) { return absl::EndsWithIgnoreCase(file, end); });
}

bool IsHidden(const Names& names) {
  return std::any_of(names.begin(), names.end(),
                     [](absl::string_view name) { return absl::StartsWith(name, "."); });
}

bool HasSplit(const Names& names) {
  return std::any_of(names.begin(), names.end() - 1,
                     [](absl::string_view name) { return IsSplitFolder(name); });
}

absl::string_view SplitOf(absl::string_view folder) {
  return folder == "valid" || folder == "validation" ? "val" : folder.empty() ? "train" : folder;
}

/// Nothing when it lies outside of the split folders.
absl::StatusOr<std::optional<Parts>> TakeApart(absl::string_view path, const Names& names, bool has_splits,
                                               bool unlabelled) {
  const auto split = has_splits ? std::find_if(names.begin(), names.end(), IsSplitFolder) : names.begin();
  const auto below = names.end() - split - (has_splits ? 1 : 0);  // <class> and <file>, or less, or more
  if (below < 1) return std::nullopt;
  const auto before = [&](Names::const_iterator name) {  // what stands in front of a name
    return name == names.begin() ? absl::string_view()
                                 : path.substr(0, static_cast<size_t>(name->data() - path.data()) - 1);
  };
  Parts parts{.prefix = has_splits ? before(split) : absl::string_view(),
              .folder = has_splits ? *split : absl::string_view(),
              .class_name = kOneClass,
              .file = names.back(),
              .split = SplitOf(has_splits ? *split : absl::string_view())};
  if (unlabelled) return parts;
  if (!has_splits) {  // the class is the last folder, whatever lies above
    if (below < 2) return std::nullopt;
    parts.class_name = names[names.size() - 2];
    parts.prefix = before(names.end() - 2);
    return parts;
  }
  if (below == 1)
    return absl::InvalidArgumentError(absl::StrCat(path, " lies in no class folder; ", kExpected));
  if (below > 2)
    return absl::InvalidArgumentError(absl::StrCat(path, " lies deeper than split/class/image; ", kExpected));
  parts.class_name = *(split + 1);
  return parts;
}

absl::Status CheckSplits(const std::vector<absl::string_view>& paths, const std::vector<Parts>& parts,
                         bool unlabelled) {
  std::map<absl::string_view, absl::string_view> folders;  // split to the folder that it comes from
  for (const Parts& part : parts) {
    const absl::string_view folder = folders.emplace(part.split, part.folder).first->second;
    if (folder != part.folder) {
      return absl::InvalidArgumentError(absl::StrCat("it has ", folder, "/ and ", part.folder,
                                                     "/, which are both the val split; leave one of them"));
    }
    if (part.prefix != parts[0].prefix && !unlabelled) {
      return absl::InvalidArgumentError(absl::StrCat(paths[parts[0].path], " and ", paths[part.path],
                                                     " belong to two trees; import one of them"));
    }
  }
  if (folders.count("train") == 0)
    return absl::InvalidArgumentError(absl::StrCat("no images to train on: ", kExpected));
  return absl::OkStatus();
}

/// Whether an image is of the test share, by its name alone.
bool InShare(const Parts& part, double share) {
  const std::string digest = Sha256Hex(absl::StrCat(part.class_name, "/", part.file));
  const uint64_t number = std::stoull(digest.substr(0, 16), nullptr, 16);
  return static_cast<double>(number) < std::ldexp(share, 64);
}

absl::Status TakeTestShare(std::vector<Parts>& parts, double share) {
  if (share <= 0) return absl::OkStatus();
  for (const Parts& part : parts) {
    if (part.split != "train")
      return absl::InvalidArgumentError(
          absl::StrCat("--test_share: the source has a ", part.folder, "/ already"));
  }
  for (Parts& part : parts) {
    if (InShare(part, share)) part.split = "test";
  }
  const auto of_test = [](const Parts& part) { return part.split == "test"; };
  if (!std::all_of(parts.begin(), parts.end(), of_test)) return absl::OkStatus();
  return absl::InvalidArgumentError("--test_share leaves no images to train on");
}

absl::StatusOr<TreeListing> Label(const std::vector<absl::string_view>& paths,
                                  const std::vector<Parts>& parts, int64_t others) {
  TreeListing listing{.classes = {}, .images = {}, .others = others};
  std::set<absl::string_view> classes;
  for (const Parts& part : parts) {
    if (part.split == "train") classes.insert(part.class_name);
  }
  for (const absl::string_view name : classes) listing.classes.emplace_back(name);
  for (const Parts& part : parts) {
    const absl::string_view path = paths[part.path];
    const auto found = std::lower_bound(listing.classes.begin(), listing.classes.end(), part.class_name);
    if (found == listing.classes.end() || *found != part.class_name) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": train/ has no class \"", part.class_name, "\""));
    }
    if (!listing.images.empty() && paths[listing.images.back().path] == path)
      return absl::InvalidArgumentError(absl::StrCat(path, " is there twice"));
    listing.images.push_back({std::string(part.split), found - listing.classes.begin(), part.path});
  }
  return listing;
}

}  // namespace

absl::StatusOr<TreeListing> ListTree(const std::vector<absl::string_view>& paths,
                                     const TreeOptions& options) {
  const auto names_of = [](absl::string_view path) -> Names { return absl::StrSplit(path, '/'); };
  const bool has_splits = std::any_of(paths.begin(), paths.end(), [&](absl::string_view path) {
    const Names names = names_of(path);
    return !IsHidden(names) && HasSplit(names);
  });
  std::vector<Parts> parts;
  int64_t others = 0;
  for (size_t i = 0; i < paths.size(); ++i) {
    const Names names = names_of(paths[i]);
    if (IsHidden(names)) continue;
    MT_ASSIGN_OR_RETURN(auto part, TakeApart(paths[i], names, has_splits, options.unlabelled));
    if (!part) continue;
    part->path = i;
    if (IsOther(part->file)) {
      ++others;
    } else {
      parts.push_back(*part);
    }
  }
  MT_RETURN_IF_ERROR(CheckSplits(paths, parts, options.unlabelled));
  MT_RETURN_IF_ERROR(TakeTestShare(parts, options.test_share));
  std::sort(parts.begin(), parts.end(), [&](const Parts& a, const Parts& b) {
    return std::tie(a.split, a.class_name, a.file, paths[a.path]) <
           std::tie(b.split, b.class_name, b.file, paths[b.path]);
  });
  return Label(paths, parts, others);
}

}  // namespace mtrun::datasets
