#include "datasets/import/webdataset.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/folder_names.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "datasets/files/archive_reader.h"
#include "datasets/files/tree_listing.h"
#include "datasets/import/brace_list.h"
#include "datasets/import/image_files.h"
#include "datasets/import/image_folder.h"
#include "datasets/import/webdataset_names.h"
#include "datasets/packed/class_list.h"

namespace mtrun::datasets {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNamesToLookAt = 64;

bool IsShard(const std::string& path) {
  return HasArchiveName(path) && !absl::EndsWithIgnoreCase(path, ".zip");
}

std::vector<std::string> ShardsIn(const std::string& folder) {
  std::vector<std::string> shards;
  for (const std::string& name : NamesIn(folder)) {
    std::error_code ignored;
    std::string path = (fs::path(folder) / name).string();
    if (IsShard(name) && name[0] != '.' && fs::is_regular_file(path, ignored))
      shards.push_back(std::move(path));
  }
  return shards;
}

/// Returns a string literal.
absl::string_view SplitByName(const std::string& path) {
  return SplitOf(SplitInName(fs::path(path).filename().string()));
}

/// Refuses archives of several splits in a source that is given for one split.
absl::Status CheckOfOne(const std::string& source, absl::string_view split,
                        const std::set<std::string>& told) {
  if (split.empty() || told.size() < 2) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(source, " has archives of ", absl::StrJoin(told, " and "),
                                                 ", but is given for ", split,
                                                 " only: name the folder or the archives of one split"));
}

/// Finds the archives of `split`; "": folders and names determine their splits.
absl::StatusOr<std::vector<TreeSource>> FindShards(const std::string& source, absl::string_view split) {
  std::error_code error;
  std::vector<TreeSource> shards;
  std::set<std::string> told;
  // The files of a/train-000001.tar are listed as "train/train-000001.tar/..."; the folder is included only
  // if another archive has the same name.
  std::set<std::string> prefixes;
  const auto add = [&](const std::string& path, absl::string_view of) {
    told.emplace(of);
    const absl::string_view in = split.empty() ? of : split;
    std::string prefix = absl::StrCat(in, "/", fs::path(path).filename().string(), "/");
    if (!prefixes.insert(prefix).second) prefix = absl::StrCat(in, "/", path, "/");
    shards.push_back({.path = path, .prefix = std::move(prefix)});
  };
  if (fs::is_directory(source, error)) {
    for (const char* folder : {"train", "val", "valid", "validation", "test"}) {
      for (const std::string& path : ShardsIn(absl::StrCat(source, "/", folder))) add(path, folder);
    }
    if (shards.empty()) {
      for (const std::string& path : ShardsIn(source)) add(path, SplitByName(path));
    }
    if (shards.empty()) return absl::InvalidArgumentError(absl::StrCat(source, " contains no tar archives"));
    MT_RETURN_IF_ERROR(CheckOfOne(source, split, told));
    return shards;
  }
  std::vector<std::string> paths{source};
  if (!fs::exists(source, error)) {
    MT_ASSIGN_OR_RETURN(paths, Annotate(ExpandBraces(source), source));
  }
  for (const std::string& path : paths) {
    if (!fs::exists(path, error)) return absl::NotFoundError(absl::StrCat("there is no ", path));
    add(path, paths.size() == 1 ? "train" : SplitByName(path));
  }
  MT_RETURN_IF_ERROR(CheckOfOne(source, split, told));
  return shards;
}

/// Counts the archives of a folder that are in no split: beside the split folders, or in other folders.
LeftOut FindOthers(const std::string& source, const std::vector<TreeSource>& shards) {
  LeftOut others;
  std::set<std::string> taken;
  for (const TreeSource& shard : shards) taken.insert(shard.path);
  const auto count = [&](const std::string& folder, const std::string& name) {
    for (const std::string& path : ShardsIn(folder)) {
      if (taken.count(path) == 0) others.AddOutside(name + fs::path(path).filename().string());
    }
  };
  count(source, "");
  for (const std::string& name : NamesIn(source)) {
    if (name[0] != '.') count(absl::StrCat(source, "/", name), name + "/");
  }
  return others;
}

/// Groups the files of a tree into samples.
class Samples {
 public:
  Samples(const FileTree& tree, const ImportOptions& options) : tree_(tree), options_(options) {}

  absl::Status Find() {
    absl::string_view key;
    std::vector<size_t> sample;  // its files
    for (size_t i = 0; i < tree_.files().size(); ++i) {
      const SampleName name = ParseSampleName(tree_.files()[i].path);
      if (name.key != key) {
        MT_RETURN_IF_ERROR(Take(sample));
        sample.clear();
        key = name.key;
      }
      sample.push_back(i);
    }
    return Take(sample);
  }

  /// REQUIRES: Find has returned.
  absl::StatusOr<TreeListing> List(const std::vector<absl::string_view>& paths) {
    TreeOptions options = options_.tree;
    MT_RETURN_IF_ERROR(NameClasses(options.classes));
    std::vector<NamedFile> files;
    files.reserve(found_.size());
    for (const auto& [image, label] : found_) {
      const absl::string_view path = paths[image];
      files.push_back({.prefix = {},
                       .folder = path.substr(0, path.find('/')),
                       .class_name = options.unlabelled ? absl::string_view() : absl::string_view(*label),
                       .file = ParseSampleName(path).file,
                       .path = image});
    }
    MT_ASSIGN_OR_RETURN(TreeListing listing, ListNamed(paths, std::move(files), options));
    listing.left_out.unlabelled = unlabelled_;
    listing.left_out.imageless = imageless_;
    listing.left_out.duplicates += duplicates_;
    return listing;
  }

 private:
  /// Returns the path without the split, for messages.
  std::string Path(size_t file) const {
    const absl::string_view path = tree_.files()[file].path, below = path.substr(path.find('/') + 1);
    return AsPlainText({below.data(), below.size()});
  }

  /// Returns the path of a sample, for messages.
  std::string KeyOf(size_t file) const {
    const absl::string_view key = ParseSampleName(tree_.files()[file].path).key;
    const absl::string_view below = key.substr(key.find('/') + 1);
    return AsPlainText({below.data(), below.size()});
  }

  /// Returns the file of a sample with a part; kInvalidArgument: there are several.
  absl::StatusOr<std::optional<size_t>> Choose(const std::vector<size_t>& sample, SamplePart part,
                                               const std::vector<std::string>& wanted) const {
    std::vector<absl::string_view> fields;
    for (const size_t file : sample) fields.push_back(ParseSampleName(tree_.files()[file].path).field);
    const auto chosen = ChooseField(fields, part, wanted);
    if (!chosen.ok())
      return absl::InvalidArgumentError(absl::StrCat(KeyOf(sample[0]), " ", chosen.status().message()));
    return *chosen ? std::optional(sample[**chosen]) : std::nullopt;
  }

  absl::Status LacksField(const std::vector<size_t>& sample, const std::vector<std::string>& wanted) const {
    std::vector<std::string> fields;
    for (const size_t file : sample) {
      const absl::string_view field = ParseSampleName(tree_.files()[file].path).field;
      fields.push_back(AsPlainText({field.data(), field.size()}));
    }
    return absl::InvalidArgumentError(
        absl::StrCat(KeyOf(sample[0]), " has no field ", absl::StrJoin(wanted, " or "), ", only ",
                     absl::StrJoin(fields, ", "), "; --skip_bad leaves out such samples"));
  }

  /// Returns the image of a sample, or nullopt if the sample is left out.
  absl::StatusOr<std::optional<size_t>> FindImage(const std::vector<size_t>& sample) {
    const bool skip_bad = options_.tree.skip_bad;
    MT_ASSIGN_OR_RETURN(const auto image, Choose(sample, SamplePart::kImage, options_.image_fields));
    if (!image && !options_.image_fields.empty()) {
      if (!skip_bad) return LacksField(sample, options_.image_fields);
      ++imageless_;
    }
    if (!image) return std::nullopt;
    const auto occurrences = std::count_if(sample.begin(), sample.end(), [&](size_t file) {
      return tree_.files()[file].path == tree_.files()[*image].path;
    });
    if (occurrences > 1 && !skip_bad)
      return absl::InvalidArgumentError(
          absl::StrCat(Path(*image), " occurs twice; --skip_bad uses the last one"));
    duplicates_ += occurrences - 1;
    return image;
  }

  absl::StatusOr<std::string> ReadLabel(const std::vector<size_t>& sample, size_t image,
                                        std::optional<size_t> file) const {
    if (!file && !options_.class_fields.empty()) return LacksField(sample, options_.class_fields);
    if (!file)
      return absl::InvalidArgumentError(
          absl::StrCat(Path(image), " has neither .cls nor .json; --unlabelled imports without classes"));
    auto bytes = tree_.Read(*file);
    if (absl::IsAborted(bytes.status())) return bytes.status();
    const bool is_json = ParseSampleName(tree_.files()[*file].path).part == SamplePart::kJson;
    auto label = !bytes.ok() ? bytes : is_json ? ParseJsonFile(*bytes) : ParseClassFile(*bytes);
    if (label.ok()) return label;
    return absl::InvalidArgumentError(absl::StrCat(Path(*file), ": ", label.status().message()));
  }

  absl::Status Take(const std::vector<size_t>& sample) {
    if (sample.empty()) return absl::OkStatus();
    MT_ASSIGN_OR_RETURN(const std::optional<size_t> image, FindImage(sample));
    if (!image) return absl::OkStatus();
    if (options_.tree.unlabelled) {
      found_.emplace_back(*image, nullptr);
      return absl::OkStatus();
    }
    MT_ASSIGN_OR_RETURN(auto file, Choose(sample, SamplePart::kClass, options_.class_fields));
    if (!file && options_.class_fields.empty()) {
      MT_ASSIGN_OR_RETURN(file, Choose(sample, SamplePart::kJson, {}));
    }
    auto label = ReadLabel(sample, *image, file);
    if (!label.ok() && (!options_.tree.skip_bad || absl::IsAborted(label.status()))) return label.status();
    if (!label.ok()) {
      ++unlabelled_;
      return absl::OkStatus();
    }
    const auto entry = labels_.emplace(*label, *label).first;
    found_.emplace_back(*image, &entry->second);
    return absl::OkStatus();
  }

  /// Replaces numbers by names of the list, otherwise keeps them. Fills `classes` if their order is known.
  absl::Status NameClasses(std::vector<std::string>& classes) {
    if (options_.tree.unlabelled) return absl::OkStatus();
    std::map<int64_t, std::string> by_number;
    if (!options_.class_list.empty()) {
      MT_ASSIGN_OR_RETURN(const std::string text, ReadFile(options_.class_list));
      MT_ASSIGN_OR_RETURN(const ClassList list, Annotate(ParseClassList(text), options_.class_list));
      by_number = list.ids;
      for (size_t i = 0; list.ids.empty() && i < list.names.size(); ++i)
        by_number[static_cast<int64_t>(i)] = list.names[i];
    }
    const bool numbers = std::all_of(labels_.begin(), labels_.end(),
                                     [](const auto& label) { return SmallNumber(label.first) >= 0; });
    if (by_number.empty() && !numbers) return absl::OkStatus();  // names, which ListNamed sorts
    int64_t most = by_number.empty() ? -1 : by_number.rbegin()->first;
    for (const auto& [label, name] : labels_) most = std::max(most, SmallNumber(label));
    for (int64_t i = 0; by_number.empty() && i <= most; ++i) classes.push_back(absl::StrCat(i));
    for (const auto& [number, name] : by_number) classes.push_back(name);
    for (auto& [label, name] : labels_) {
      const int64_t number = SmallNumber(label);
      if (by_number.empty() || number < 0) continue;
      const auto found = by_number.find(number);
      if (found == by_number.end())
        return absl::InvalidArgumentError(absl::StrCat(options_.class_list, " has no class ", number));
      name = found->second;
    }
    return absl::OkStatus();
  }

  const FileTree& tree_;
  const ImportOptions& options_;
  std::vector<std::pair<size_t, const std::string*>> found_;  // image's file, name of its class
  std::map<std::string, std::string> labels_;                 // as in the files, to names
  int64_t unlabelled_ = 0, duplicates_ = 0, imageless_ = 0;
};

}  // namespace

bool LooksLikeSamples(const std::vector<std::string>& names) {
  const SampleName last = ParseSampleName(names.back());
  const bool is_label = last.part == SamplePart::kClass || last.part == SamplePart::kJson;
  if (!is_label && last.part != SamplePart::kImage) return false;
  return std::any_of(names.begin(), names.end() - 1, [&](const std::string& name) {
    const SampleName other = ParseSampleName(name);
    const bool other_label = other.part == SamplePart::kClass || other.part == SamplePart::kJson;
    return other.key == last.key && (is_label ? other.part == SamplePart::kImage : other_label);
  });
}

bool LooksLikeWebDataset(const std::string& folder) {
  const auto shards = FindShards(folder, "");
  if (!shards.ok()) return false;
  std::vector<std::string> names;
  auto reader = ArchiveReader::Open(shards->front().path);
  while (reader.ok() && names.size() < kNamesToLookAt) {
    const auto more = reader->Next();
    if (!more.ok() || !*more) break;
    names.push_back(reader->name());
    if (LooksLikeSamples(names)) return true;
  }
  return false;
}

absl::StatusOr<std::unique_ptr<ImageSource>> OpenWebDataset(const ImportOptions& options) {
  const std::string& source = options.source;
  const bool more = !options.val_source.empty() || !options.test_source.empty();
  MT_ASSIGN_OR_RETURN(std::vector<TreeSource> shards, FindShards(source, more ? "train" : ""));
  for (const auto& [given, split] : {std::pair(&options.val_source, "val"), {&options.test_source, "test"}}) {
    if (given->empty()) continue;
    MT_ASSIGN_OR_RETURN(const auto found, FindShards(*given, split));
    shards.insert(shards.end(), found.begin(), found.end());
  }
  ImageFiles files;
  MT_ASSIGN_OR_RETURN(files.tree, OpenFileTree(shards, SpoolFolder(options)));
  Samples samples(*files.tree, options);
  MT_RETURN_IF_ERROR(Annotate(samples.Find(), source));
  MT_ASSIGN_OR_RETURN(files.listing, Annotate(samples.List(files.Paths()), source));
  files.listing.left_out.AddPassedOver(files.tree->passed_over());
  for (const std::string* place : {&source, &options.val_source, &options.test_source})
    files.listing.left_out.AddPassedOver(FindOthers(*place, shards));
  return MakeImageSource(std::move(files), options);
}

}  // namespace mtrun::datasets
