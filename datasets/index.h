// index.json of a packed data set (docs/formats.md): what is in it, and the digest that names it. A value;
// pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun::datasets {

struct ShardEntry {
  int64_t images = 0;
  int64_t bytes = 0;        // size of the file
  std::string sha256 = {};  // of the file, 64 hexadecimal digits
  bool operator==(const ShardEntry&) const = default;
};

struct SplitEntry {
  std::vector<int64_t> class_counts;  // one for each class; their sum is images()
  std::vector<ShardEntry> shards;     // in the order of their images, at least one
  int64_t images() const;
  int64_t bytes() const;
  bool operator==(const SplitEntry&) const = default;
};

struct Index {
  int height = 0;  // of all images; of the largest ones in an encoded set
  int width = 0;
  bool encoded = false;  // format version 2: files of JPEG and PNG images of any size
  int min_height = 0;    // of the smallest ones in an encoded set, else 0
  int min_width = 0;
  std::vector<std::string> classes;               // label i is classes[i]
  std::map<std::string, SplitEntry> splits = {};  // at least one; names of [a-z0-9_]
  int64_t images() const;
  int64_t bytes() const;
  /// True when images differ in size.
  bool varies() const { return encoded && (min_height != height || min_width != width); }
  bool operator==(const Index&) const = default;
};

constexpr char kIndexFile[] = "index.json";
/// "train/shard_00002.safetensors", relative to the data set's folder.
std::string ShardFile(const std::string& split, size_t number);
/// kInvalidArgument names the class whose name is empty, not plain text (utf8.h) or there twice: no index
/// holds it.
absl::Status CheckClassNames(const std::vector<std::string>& names);
/// Of [a-z0-9_].
bool IsSplitName(std::string_view name);
/// 64 hexadecimal digits, as digests and checksums have them.
bool IsSha256(std::string_view text);

/// The canonical text: JSON without white space, keys sorted, without "digest". Equal data sets have equal
/// texts.
std::string CanonicalIndex(const Index& index);
/// SHA-256 of the canonical text.
std::string IndexDigest(const Index& index);
/// The text of index.json: indented, with the digest. REQUIRES: CheckClassNames(index.classes) is OK.
std::string EncodeIndex(const Index& index);
/// kInvalidArgument: not an index, another version, or a class name that is not plain text; kDataLoss:
/// contents do not add up or do not have the digest.
absl::StatusOr<Index> DecodeIndex(std::string_view text);

/// Whether `<root>/index.json` says that it is the index of a packed set; a damaged one may, or one of
/// another version.
bool HasIndex(const std::string& root);
/// Reads `<root>/index.json`; kNotFound says how to make a data set.
absl::StatusOr<Index> ReadIndex(const std::string& root);

}  // namespace mtrun::datasets
