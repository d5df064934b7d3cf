// Explains trees of images that are not in the layout of classes, and names the command that imports them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace mtrun::datasets {

/// The words of `mtdata import SOURCE DEST` for messages.
struct ImportWords {
  std::string source, destination = "DEST";
  std::string above = "";  // the folder whose class the source seems to be (FolderOfClasses)
};

/// Returns kInvalidArgument, in one sentence with a command, if the paths of a source hold no images, no class
/// folders, or splits under other names than train, val and test. OK: ListTree decides. Pure.
absl::Status CheckLayout(const std::vector<absl::string_view>& paths, const ImportWords& words);

/// Returns the split that the words of a name mean ("Training", "seg_test", "VAL"): "train", "val", "test", or
/// "" if they mean none or several.
absl::string_view SplitMeant(absl::string_view name);

/// Returns the folder above `source`, without split folders, if `source` is a folder among others with images;
/// "" otherwise.
std::string FolderOfClasses(const std::string& source);

}  // namespace mtrun::datasets
