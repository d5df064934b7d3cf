// mtdata's input from sources of image files: archives, and the texts that describe their content.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "datasets/files/file_tree.h"
#include "datasets/files/tree_listing.h"
#include "datasets/import/brace_list.h"
#include "datasets/import/ground_truth.h"
#include "datasets/import/webdataset_names.h"
#include "datasets/packed/class_list.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/invariant.h"

namespace mtrun::fuzz {
namespace {

using namespace datasets;  // NOLINT: the code under test

constexpr int64_t kMaxOfSource = 1 << 20;

void ReadClasses(std::string_view text) {
  const auto list = ParseClassList(text);
  if (!list.ok()) return;
  const std::set<std::string> names(list->names.begin(), list->names.end());
  MT_HOLDS(!names.empty() && names.size() == list->names.size());
  MT_HOLDS(list->ids.empty() || list->ids.size() == list->names.size());
}

void ReadGroundTruth(std::string_view text) {
  const std::vector<absl::string_view> files{"a_1.jpg", "a_2.jpg", "a_3.jpg"};
  const ClassList plain{.names = {"z", "y", "x"}, .ids = {}};
  const ClassList numbered{.names = {"z", "y"}, .ids = {{1, "z"}, {9, "y"}}};
  for (const std::optional<ClassList>& classes : {std::optional<ClassList>(), {plain}, {numbered}}) {
    const auto found = FindClasses(text, classes, files);
    MT_HOLDS(found.ok() ? found->size() == files.size() : !found.status().message().empty());
  }
}

void ReadBraces(std::string_view text) {
  const auto names = ExpandBraces(text);
  if (!names.ok()) return;
  MT_HOLDS(!names->empty() && names->size() <= kMaxBraceNames) << names->size();
}

void ReadLabels(std::string_view bytes) {
  for (const auto& label : {ParseClassFile(bytes), ParseJsonFile(bytes)}) {
    if (!label.ok()) continue;
    MT_HOLDS(SmallNumber(*label) >= 0 || CheckClassName(*label).ok()) << *label;
  }
  const absl::string_view path(bytes.data(), bytes.size());
  const SampleName name = ParseSampleName(path);
  MT_HOLDS(path.substr(0, name.key.size()) == name.key && name.file.size() <= path.size());
}

}  // namespace

void FuzzArchive(std::string_view bytes) {
  const InputFile file(bytes);
  static const InputFolder spool;
  const auto tree = OpenFileTree({{.path = file.path(), .prefix = "train/"}}, spool.path());
  if (!tree.ok()) return;
  std::vector<absl::string_view> paths;
  for (size_t i = 0; i < (*tree)->files().size(); ++i) {
    const SourceFile& one = (*tree)->files()[i];
    paths.push_back(one.path);
    MT_HOLDS(one.bytes >= 0) << one.path;
    if (one.bytes > kMaxOfSource) continue;
    const auto contents = (*tree)->Read(i);
    MT_HOLDS(!contents.ok() || static_cast<int64_t>(contents->size()) <= one.bytes) << one.path;
  }
  for (const bool skip_bad : {false, true}) {
    const auto listing = ListTree(paths, {.skip_bad = skip_bad});
    if (!listing.ok()) continue;
    for (const TreeImage& image : listing->images)
      MT_HOLDS(image.path < paths.size() && image.label < static_cast<int64_t>(listing->classes.size()));
  }
}

void FuzzSources(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::string_view rest = bytes.substr(1);
  switch (bytes[0]) {
    case 'b':
      return ReadBraces(rest);
    case 'c':
      return ReadClasses(rest);
    case 'g':
      return ReadGroundTruth(rest);
    default:
      return ReadLabels(rest);
  }
}

}  // namespace mtrun::fuzz
