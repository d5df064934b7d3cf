#include "datasets/import/imagenet.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/folder_names.h"
#include "base/status_macros.h"
#include "datasets/files/archive_reader.h"
#include "datasets/import/image_folder.h"

namespace mtrun::datasets {
namespace {

namespace fs = std::filesystem;

constexpr char kTrain[] = "ILSVRC2012_img_train.tar", kVal[] = "ILSVRC2012_img_val.tar";
constexpr char kHowToLabel[] =
    "give the classes of the validation images with --val_labels FILE (the devkit's "
    "ILSVRC2012_validation_ground_truth.txt with --class_list FILE, or \"<file> <class>\" lines)";

/// Returns true for "n01440764.tar" in any folder.
bool IsClassArchive(absl::string_view path) {
  const absl::string_view name = path.substr(path.rfind('/') + 1);
  return name.size() == 13 && name[0] == 'n' && HasPlainTarName(name) &&
         std::all_of(name.begin() + 1, name.begin() + 9, [](char c) { return absl::ascii_isdigit(c); });
}

/// Returns the first of the names that exists in the folder or in the devkit's; "" if none does.
std::string FindIn(const std::string& folder, const std::vector<std::string>& names) {
  std::error_code error;
  for (const std::string& place : {folder, folder + "/ILSVRC2012_devkit_t12/data"}) {
    for (const std::string& name : names) {
      std::string path = absl::StrCat(place, "/", name);
      if (fs::is_regular_file(path, error)) return path;
    }
  }
  return "";
}

}  // namespace

bool LooksLikeClassArchives(const std::vector<std::string>& names) { return IsClassArchive(names.back()); }

bool LooksLikeImageNet(const std::string& folder) {
  return !FindIn(folder, {kTrain}).empty() || std::ranges::any_of(NamesIn(folder + "/train"), IsClassArchive);
}

absl::StatusOr<std::unique_ptr<ImageSource>> OpenImageNet(const ImportOptions& options) {
  std::error_code error;
  const std::string& source = options.source;
  if (!fs::is_directory(source, error)) return OpenImageFolder(options);
  ImportOptions found = options;
  const std::string train = FindIn(source, {kTrain});
  if (found.val_source.empty()) found.val_source = FindIn(source, {kVal});
  if (found.val_labels.empty())
    found.val_labels = FindIn(source, {"ILSVRC2012_validation_ground_truth.txt", "LOC_val_solution.csv"});
  if (found.class_list.empty()) found.class_list = FindIn(source, {"meta.txt"});
  if (!found.val_source.empty() && found.val_labels.empty() && !options.tree.unlabelled)
    return absl::InvalidArgumentError(absl::StrCat(source, ": ", kHowToLabel));
  // If val is elsewhere, the class archives in train/ are this whole source.
  const bool apart = !found.val_source.empty() && fs::is_directory(source + "/train", error);
  found.source = !train.empty() ? train : apart ? source + "/train" : source;
  return OpenImageFolder(found);
}

}  // namespace mtrun::datasets
