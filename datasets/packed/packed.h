// A packed data set, opened for reading: folders `<root>/<split>/` of memory-mapped safetensors shards with
// an index.json (docs/formats.md), of pixels (version 1) or encoded images (version 2). Needs neither OpenCV
// nor LibTorch. Immutable after Open, except that shards come and go; const methods are thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "datasets/images/image.h"

namespace mtrun::datasets {

class PackedSplit {
 public:
  /// Opens `split`: "train" or "test". kNotFound lists the existing splits; kDataLoss: a shard's size
  /// disagrees with the index, or with `verify` its SHA-256; the message names the shard.
  static absl::StatusOr<PackedSplit> Open(const std::string& root, const std::string& split,
                                          bool verify = false);
  /// Opens a split whose shards are added later by Add. None is available yet; check has() before calling the
  /// methods below for an image.
  static absl::StatusOr<PackedSplit> OpenIndex(const std::string& root, const std::string& split);
  /// Maps shard `number`, which has arrived, unless it was added before. kDataLoss as for Open. Call from one
  /// thread only; others may read at the same time.
  absl::Status Add(size_t number);
  /// Unmaps shard `number`, which may be added again; false if it is held (Hold). Call on the thread of Add.
  /// REQUIRES: OpenIndex; other threads access its images only while they hold them.
  bool Drop(size_t number);
  /// Switches to another copy of shard `number` in the same place, even if it is held. Does nothing if it was
  /// not added. kDataLoss as for Open. Call on the thread of Add.
  absl::Status Replace(size_t number);
  /// The number of replacements so far. Values read before the latest one may come from an overwritten copy.
  int64_t replaced() const;
  /// Called with images that cannot be read. Returns true if another copy of one of their shards is in place
  /// now; false if the files are correct, or this thread cannot repair them.
  using Mender = std::function<absl::StatusOr<bool>(absl::Span<const int64_t> ids)>;
  /// Call before others read.
  void set_mender(Mender mender);
  /// Calls the mender; returns false if there is none.
  absl::StatusOr<bool> Mend(absl::Span<const int64_t> ids) const;
  /// Keeps shards from being dropped.
  using Held = std::vector<std::shared_ptr<const void>>;
  /// Holds all these images; nullopt if one is not available.
  std::optional<Held> Hold(absl::Span<const int64_t> ids) const;
  /// Keeps only the given images: image i is the old ids[i]. REQUIRES: each is below size(), and they ascend.
  PackedSplit Restricted(std::vector<int64_t> ids) &&;
  PackedSplit(PackedSplit&&) noexcept;
  PackedSplit& operator=(PackedSplit&&) noexcept;
  ~PackedSplit();

  int64_t size() const;
  const std::string& name() const;
  /// Returns true if image i is available: its shard was opened or added.
  bool has(int64_t i) const;
  /// Returns true if all shards are available.
  bool has_all() const;
  /// Returns the number of the shard that contains image i.
  size_t shard_of(int64_t i) const;
  /// Returns the number of (kept) images in each shard, in the order of the files.
  std::vector<int64_t> shard_counts() const;
  /// The size of all images; the maximum if they differ.
  int height() const;
  int width() const;
  /// True if the images are JPEG and PNG files: use record(), not image().
  bool encoded() const;
  /// True if images differ in size.
  bool varies() const;
  static constexpr int channels() { return 3; }
  const std::vector<std::string>& class_names() const;
  /// Returns the number of (kept) images of each class. REQUIRES: has_all(), if the split is restricted.
  std::vector<int64_t> class_counts() const;
  /// Index::orientation.
  const std::string& orientation() const;
  /// Returns uint8 [H, W, 3], row-major, in the mapped file. REQUIRES: !encoded().
  absl::Span<const uint8_t> image(int64_t i) const;
  /// Returns the bytes of a JPEG or PNG file, in the mapped file; empty if the file was overwritten and they
  /// cannot be found. REQUIRES: encoded().
  std::string_view record(int64_t i) const;
  ImageSize image_size(int64_t i) const;
  /// The limits for decoding record(i): a damaged record that claims more pixels than its shard says is
  /// refused before memory is allocated.
  DecodeLimits decode_limits(int64_t i) const;
  /// Asks the kernel to read image i from disk, if it is not in memory, without waiting.
  void WillNeed(int64_t i) const;
  int64_t label(int64_t i) const;
  /// The SHA-256 of the whole data set's canonical index: the same data has the same digest on every node.
  const std::string& digest() const;

 private:
  struct State;
  static absl::StatusOr<std::unique_ptr<State>> ReadState(const std::string& root, const std::string& split);
  explicit PackedSplit(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace mtrun::datasets
