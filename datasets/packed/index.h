// index.json of a packed data set (docs/formats.md): its contents and digest. A value; pure functions.
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
  std::vector<int64_t> class_counts;  // one per class; their sum is images()
  std::vector<ShardEntry> shards;     // in the order of their images, at least one
  int64_t images() const;
  int64_t bytes() const;
  bool operator==(const SplitEntry&) const = default;
};

/// Values of Index::orientation: images were turned as their files said, or kept as stored in the files.
inline constexpr char kTurnedUpright[] = "upright", kAsStored[] = "as_stored";

struct Index {
  int height = 0;  // size of all images; maximum in an encoded set
  int width = 0;
  bool encoded = false;  // format version 2: files of JPEG and PNG images of any size
  int min_height = 0;    // minimum in an encoded set, otherwise 0
  int min_width = 0;
  std::vector<std::string> classes;               // label i is classes[i]
  std::map<std::string, SplitEntry> splits = {};  // at least one; names of [a-z0-9_]
  /// What became of the orientation of the source's files; empty if it had no files, or an earlier release
  /// made the set. Not part of the digest: the pixels are.
  std::string orientation = {};
  int64_t images() const;
  int64_t bytes() const;
  /// True if images differ in size.
  bool varies() const { return encoded && (min_height != height || min_width != width); }
  bool operator==(const Index&) const = default;
};

constexpr char kIndexFile[] = "index.json";
/// Limit of its size: enough for 2^20 shards.
constexpr size_t kMaxIndexBytes = size_t{256} << 20;
/// Returns "train/shard_00002.safetensors", relative to the data set's folder.
std::string ShardFile(const std::string& split, size_t number);
/// kInvalidArgument names a class whose name is empty, not plain text (utf8.h) or a duplicate.
absl::Status CheckClassNames(const std::vector<std::string>& names);
/// Returns true for names of [a-z0-9_].
bool IsSplitName(std::string_view name);

/// Returns the canonical text, equal for equal sets: JSON without white space, sorted keys, no "digest" and
/// no "orientation".
std::string CanonicalIndex(const Index& index);
/// Returns the SHA-256 of the canonical text.
std::string IndexDigest(const Index& index);
/// Returns the text of index.json: indented, with the digest. REQUIRES: CheckClassNames(index.classes) is OK.
std::string EncodeIndex(const Index& index);
/// kInvalidArgument: not an index, another version, or a class name that is not plain text; kDataLoss:
/// contents do not add up or do not match the digest.
absl::StatusOr<Index> DecodeIndex(std::string_view text);

/// Returns true if `<root>/index.json` claims to be a packed set's, even if damaged or of another version.
bool HasIndex(const std::string& root);
/// Reads `<root>/index.json`. kNotFound: the message says how to make a data set.
absl::StatusOr<Index> ReadIndex(const std::string& root);

}  // namespace mtrun::datasets
