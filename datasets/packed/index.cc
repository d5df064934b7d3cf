#include "datasets/packed/index.h"

#include <filesystem>
#include <functional>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/folder_names.h"
#include "base/posix.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "datasets/files/shell_word.h"
#include "datasets/packed/data_url.h"
#include "datasets/packed/index_reader.h"
#include "nlohmann/json.hpp"

namespace mtrun::datasets {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kFormat[] = "mtrun-packed";
constexpr int kPixelVersion = 1, kEncodedVersion = 2;
constexpr int64_t kMaxSide = 65535;
constexpr int64_t kMaxCount = int64_t{1} << 40;  // sums over kMaxEntries still fit
constexpr size_t kMaxEntries = 1 << 20;
constexpr size_t kMaxValues = 3 * kMaxEntries;  // besides shards: classes, and their counts in two splits

/// Writes JSON as nlohmann's dump does, without building a value first: an index can have a million shards.
class JsonWriter {
 public:
  /// `indent`: spaces per level; -1 for no white space.
  explicit JsonWriter(int indent) : indent_(indent) {}
  void Begin(char bracket) {
    text_ += bracket;
    ++depth_;
    first_ = true;
  }
  void End(char bracket) {
    --depth_;
    if (!first_) NewLine();
    text_ += bracket;
    first_ = false;
  }
  void Key(std::string_view name) {
    Item();
    absl::StrAppend(&text_, json(name).dump(), indent_ < 0 ? ":" : ": ");
  }
  /// Begins the next item of a list.
  void Item() {
    if (!first_) text_ += ',';
    first_ = false;
    NewLine();
  }
  void Value(int64_t value) { absl::StrAppend(&text_, value); }
  void Value(const std::string& value) { text_ += json(value).dump(); }
  template <typename T>
  void Value(const std::vector<T>& values) {
    Begin('[');
    for (const T& value : values) {
      Item();
      Value(value);
    }
    End(']');
  }
  template <typename T>
  void Member(std::string_view name, const T& value) {
    Key(name);
    Value(value);
  }
  std::string Take() { return std::move(text_); }

 private:
  void NewLine() {
    if (indent_ < 0) return;
    text_ += '\n';
    text_.append(static_cast<size_t>(indent_) * depth_, ' ');
  }

  const int indent_;
  size_t depth_ = 0;
  bool first_ = true;
  std::string text_;
};

void WriteSplit(JsonWriter& writer, const std::string& name, const SplitEntry& split) {
  writer.Begin('{');
  writer.Member("class_counts", split.class_counts);
  writer.Member("images", split.images());
  writer.Key("shards");
  writer.Begin('[');
  for (size_t i = 0; i < split.shards.size(); ++i) {
    writer.Item();
    writer.Begin('{');
    writer.Member("bytes", split.shards[i].bytes);
    writer.Member("file", ShardFile(name, i));
    writer.Member("images", split.shards[i].images);
    writer.Member("sha256", split.shards[i].sha256);
    writer.End('}');
  }
  writer.End(']');
  writer.End('}');
}

/// Returns the text of the index, with sorted keys. It contains the orientation only with a digest; "": none.
std::string TextOf(const Index& index, int indent, const std::string& digest) {
  JsonWriter writer(indent);
  writer.Begin('{');
  writer.Member("channels", int64_t{3});
  writer.Member("classes", index.classes);
  if (!digest.empty()) writer.Member("digest", digest);
  writer.Member("format", std::string(kFormat));
  writer.Member("height", int64_t{index.height});
  if (index.encoded) {
    writer.Member("min_height", int64_t{index.min_height});
    writer.Member("min_width", int64_t{index.min_width});
  }
  if (!digest.empty() && !index.orientation.empty()) writer.Member("orientation", index.orientation);
  writer.Key("splits");
  writer.Begin('{');
  for (const auto& [name, split] : index.splits) {
    writer.Key(name);
    WriteSplit(writer, name, split);
  }
  writer.End('}');
  if (index.encoded) writer.Member("store", std::string("encoded"));
  writer.Member("version", int64_t{index.encoded ? kEncodedVersion : kPixelVersion});
  writer.Member("width", int64_t{index.width});
  writer.End('}');
  return writer.Take();
}

absl::Status Damaged(const std::string& what) {
  return absl::DataLossError(absl::StrCat("damaged index: ", what));
}

absl::StatusOr<int64_t> GetInt(const json& object, const char* key, int64_t low, int64_t high) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) {
    return Damaged(absl::StrCat("\"", key, "\" is missing or not a whole number"));
  }
  const bool huge = found->is_number_unsigned() && found->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  const int64_t value = huge ? INT64_MAX : found->get<int64_t>();
  if (value < low || value > high)
    return Damaged(absl::StrCat("\"", key, "\" is ", value, "; it must be from ", low, " to ", high));
  return value;
}

absl::StatusOr<std::string> GetText(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string())
    return Damaged(absl::StrCat("\"", key, "\" is missing or not a string"));
  return found->get<std::string>();
}

absl::StatusOr<const json*> GetArray(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array() || found->empty() || found->size() > kMaxEntries) {
    return Damaged(absl::StrCat("\"", key, "\" is missing, empty or not a list"));
  }
  return &*found;
}

absl::StatusOr<ShardEntry> ParseShard(const json& entry, const std::string& expected_file) {
  ShardEntry shard;
  MT_ASSIGN_OR_RETURN(const std::string file, GetText(entry, "file"));
  if (file != expected_file)
    return Damaged(
        absl::StrCat("a shard is named \"", AsPlainText(file), "\" instead of \"", expected_file, "\""));
  MT_ASSIGN_OR_RETURN(shard.images, GetInt(entry, "images", 1, kMaxCount));
  MT_ASSIGN_OR_RETURN(shard.bytes, GetInt(entry, "bytes", 1, kMaxCount));
  MT_ASSIGN_OR_RETURN(shard.sha256, GetText(entry, "sha256"));
  if (!IsSha256(shard.sha256)) return Damaged(absl::StrCat(file, " has no SHA-256"));
  return shard;
}

/// The shards of a split, as far as they were read.
struct ShardList {
  std::vector<ShardEntry> shards;
  absl::Status error = {};
};

void AddShard(const std::string& split, const json& entry, ShardList& list) {
  if (!list.error.ok()) return;
  absl::StatusOr<ShardEntry> shard = list.shards.size() < kMaxEntries
                                         ? ParseShard(entry, ShardFile(split, list.shards.size()))
                                         : Damaged("too many shards");
  list.error = shard.status();
  if (shard.ok()) list.shards.push_back(*std::move(shard));
}

/// `entry`: without its shards, which are in `list`.
absl::StatusOr<SplitEntry> ParseSplit(const std::string& name, const json& entry, ShardList list,
                                      size_t classes) {
  if (!IsSplitName(name) || !entry.is_object())
    return Damaged(absl::StrCat("bad split \"", AsPlainText(name), "\""));
  SplitEntry split;
  const auto others = entry.find("shards");
  if (others == entry.end() || !others->is_array() ||
      (others->empty() && list.shards.empty() && list.error.ok()))
    return Damaged("\"shards\" is missing, empty or not a list");
  if (!others->empty()) return Damaged("a shard is not an object");
  MT_RETURN_IF_ERROR(list.error);
  split.shards = std::move(list.shards);
  MT_ASSIGN_OR_RETURN(const json* counts, GetArray(entry, "class_counts"));
  int64_t sum = 0;
  for (const json& count : *counts) {
    if (!count.is_number_unsigned() || count.get<uint64_t>() > kMaxCount)
      return Damaged("a class count is not a valid number");
    sum += split.class_counts.emplace_back(count.get<int64_t>());
  }
  MT_ASSIGN_OR_RETURN(const int64_t images, GetInt(entry, "images", 1, INT64_MAX));
  if (images != split.images() || images != sum || split.class_counts.size() != classes) {
    return Damaged(absl::StrCat("the counts of split \"", name, "\" do not add up"));
  }
  return split;
}

bool SaysItsFormat(const json& object) {
  return object.is_object() && object.value("format", json()) == kFormat;
}

/// Returns the format version.
absl::StatusOr<int64_t> CheckKind(const json& object) {
  if (!SaysItsFormat(object)) {
    return absl::InvalidArgumentError("not the index of a packed data set (no \"format\": \"mtrun-packed\")");
  }
  MT_ASSIGN_OR_RETURN(const int64_t version, GetInt(object, "version", 0, INT64_MAX));
  if (version == kPixelVersion || version == kEncodedVersion) return version;
  return absl::InvalidArgumentError(absl::StrCat("format version ", version, ", but this program reads ",
                                                 kPixelVersion, " and ", kEncodedVersion,
                                                 ": import the data again"));
}

absl::Status ParseSizes(const json& object, Index& index) {
  MT_ASSIGN_OR_RETURN(index.height, GetInt(object, "height", 1, kMaxSide));
  MT_ASSIGN_OR_RETURN(index.width, GetInt(object, "width", 1, kMaxSide));
  MT_RETURN_IF_ERROR(GetInt(object, "channels", 3, 3));
  if (!index.encoded) return absl::OkStatus();
  MT_ASSIGN_OR_RETURN(const std::string store, GetText(object, "store"));
  if (store != "encoded") return Damaged(absl::StrCat("\"store\" is \"", AsPlainText(store), "\""));
  MT_ASSIGN_OR_RETURN(index.min_height, GetInt(object, "min_height", 1, index.height));
  MT_ASSIGN_OR_RETURN(index.min_width, GetInt(object, "min_width", 1, index.width));
  return absl::OkStatus();
}

/// Adds up a member, or what a function returns.
template <typename Range, typename Member>
int64_t SumOf(const Range& entries, Member member) {
  int64_t sum = 0;
  for (const auto& entry : entries) sum += std::invoke(member, entry);
  return sum;
}

absl::Status CheckPlain(const std::string& name, const char* what_to_do) {
  if (IsPlainText(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the name of the class \"", AsPlainText(name),
                                                 "\" is not UTF-8 or has control characters: ", what_to_do));
}

}  // namespace

int64_t SplitEntry::images() const { return SumOf(shards, &ShardEntry::images); }
int64_t SplitEntry::bytes() const { return SumOf(shards, &ShardEntry::bytes); }
int64_t Index::images() const {
  return SumOf(splits, [](const auto& split) { return split.second.images(); });
}
int64_t Index::bytes() const {
  return SumOf(splits, [](const auto& split) { return split.second.bytes(); });
}

std::string ShardFile(const std::string& split, size_t number) {
  return absl::StrFormat("%s/shard_%05d.safetensors", split, number);
}

absl::Status CheckClassNames(const std::vector<std::string>& names) {
  std::set<std::string_view> seen;
  for (const std::string& name : names) {
    if (name.empty()) return absl::InvalidArgumentError("the name of a class is empty");
    MT_RETURN_IF_ERROR(CheckPlain(name, "rename it"));
    if (!seen.insert(name).second)
      return absl::InvalidArgumentError(absl::StrCat("two classes are named \"", name, "\""));
  }
  return absl::OkStatus();
}

bool IsSplitName(std::string_view name) {
  return !name.empty() &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos;
}

std::string CanonicalIndex(const Index& index) { return TextOf(index, /*indent=*/-1, /*digest=*/""); }

std::string IndexDigest(const Index& index) { return Sha256Hex(CanonicalIndex(index)); }

std::string EncodeIndex(const Index& index) { return TextOf(index, /*indent=*/2, IndexDigest(index)) + "\n"; }

absl::StatusOr<Index> DecodeIndex(std::string_view text) {
  std::map<std::string, ShardList> shards;
  const absl::StatusOr<json> parsed =
      IndexReader::Read(text, kMaxIndexBytes, kMaxValues, [&](const std::string& split, const json* shard) {
        ShardList& list = shards[split];
        if (shard == nullptr) return void(list = {});
        AddShard(split, *shard, list);
      });
  if (!parsed.ok()) return Annotate(parsed.status(), "not the index of a packed data set");
  const json& object = *parsed;
  MT_ASSIGN_OR_RETURN(const int64_t version, CheckKind(object));
  Index index;
  index.encoded = version == kEncodedVersion;
  MT_RETURN_IF_ERROR(ParseSizes(object, index));
  MT_ASSIGN_OR_RETURN(const json* classes, GetArray(object, "classes"));
  for (const json& name : *classes) {
    if (!name.is_string()) return Damaged("the name of a class is not a string");
    MT_RETURN_IF_ERROR(CheckPlain(index.classes.emplace_back(name.get<std::string>()),
                                  "in the source of the images, rename that class and import again"));
  }
  const auto splits = object.find("splits");
  if (splits == object.end() || !splits->is_object() || splits->empty()) return Damaged("no splits");
  for (const auto& [name, entry] : splits->items()) {
    MT_ASSIGN_OR_RETURN(index.splits[name],
                        ParseSplit(name, entry, std::move(shards[name]), index.classes.size()));
  }
  if (object.contains("orientation")) {
    MT_ASSIGN_OR_RETURN(index.orientation, GetText(object, "orientation"));
    if (index.orientation != kTurnedUpright && index.orientation != kAsStored)
      return Damaged(absl::StrCat("\"orientation\" is \"", AsPlainText(index.orientation), "\""));
  }
  MT_ASSIGN_OR_RETURN(const std::string digest, GetText(object, "digest"));
  if (digest != IndexDigest(index))
    return Damaged("it was changed after it was written (its digest differs)");
  return index;
}

namespace {

/// Returns a command that makes a packed set from `root`, which is not one.
std::string HowToImport(const std::string& root) {
  std::error_code error;
  std::string source = root.empty() ? "." : root;
  while (source.size() > 1 && source.back() == '/') source.pop_back();
  if (source.back() == '.') source = fs::weakly_canonical(source, error).string();  // "." has no sibling
  if (!fs::exists(source, error))
    return absl::StrCat("create one with: mtdata import SOURCE ", ShellWord(source));
  if (fs::is_directory(source, error) && fs::is_empty(source, error))
    return absl::StrCat("it is empty; create one with: mtdata import SOURCE ", ShellWord(source));
  bool has_folders = false, has_test = false;
  for (const std::string& name : NamesIn(source)) {
    if (!fs::is_directory(fs::path(source) / name, error)) continue;
    has_folders = true;
    has_test |= name == "test" || name == "val" || name == "valid" || name == "validation";
  }
  const std::string packed = absl::StrCat(source, "-packed");
  return absl::StrCat("if it contains images, pack them with: mtdata import ", ShellWord(source), " ",
                      ShellWord(packed), has_folders && !has_test ? " --test_share 0.1" : "", " and give ",
                      ShellWord(packed));
}

}  // namespace

bool HasIndex(const std::string& root) {
  const auto text = ReadFileStart(absl::StrCat(root, "/", kIndexFile), kMaxIndexBytes + 1);
  if (!text.ok()) return false;
  const auto parsed = IndexReader::Read(*text, kMaxIndexBytes, kMaxValues, [](const auto&, const json*) {});
  return parsed.ok() && SaysItsFormat(*parsed);
}

absl::StatusOr<Index> ReadIndex(const std::string& root) {
  const std::string path = absl::StrCat(root, "/", kIndexFile);
  const auto text = ReadFileStart(path, kMaxIndexBytes + 1);
  std::error_code error;
  if (absl::IsNotFound(text.status()) && IsDataUrl(root)) {
    return absl::NotFoundError(absl::StrCat(root, " is on a server, but a folder is needed: `mtdata fetch ",
                                            ShellWord(root), "` fetches it and prints the folder to give"));
  }
  if (absl::IsNotFound(text.status()) || fs::is_regular_file(root, error)) {
    return absl::NotFoundError(
        absl::StrCat(root, " is not a packed data set (it has no ", kIndexFile, "); ", HowToImport(root)));
  }
  MT_RETURN_IF_ERROR(text.status());
  return Annotate(DecodeIndex(*text), path);
}

}  // namespace mtrun::datasets
