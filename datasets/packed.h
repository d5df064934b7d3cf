// A packed data set, opened for reading: folders `<root>/<split>/` of memory-mapped safetensors shards with
// an index.json (docs/formats.md), of pixels (version 1) or of encoded images (version 2). Free of OpenCV and
// LibTorch. Immutable after Open, but for shards that are added and dropped; const methods are thread-safe.
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
  /// `split`: "train" or "test". kNotFound lists the splits that are there; kDataLoss names the shard whose
  /// size disagrees with the index. With `verify` the SHA-256 of each shard is compared too.
  static absl::StatusOr<PackedSplit> Open(const std::string& root, const std::string& split,
                                          bool verify = false);
  /// The same of a set whose shards are still to come: none is there yet, has() says of which images the
  /// methods below may be asked. The files are those of Add.
  static absl::StatusOr<PackedSplit> OpenIndex(const std::string& root, const std::string& split);
  /// Shard `number` has come: maps it, unless it was added before. kDataLoss as Open. One thread at a time;
  /// others may read meanwhile.
  absl::Status Add(size_t number);
  /// Unmaps shard `number`, which may be added again; false: somebody holds it, it stays. REQUIRES:
  /// OpenIndex; others look at its images only while they hold them. The thread of Add.
  bool Drop(size_t number);
  /// Another copy of shard `number` is in its place: its images, labels and sizes are read from now on, also
  /// by who holds the shard; nothing where that was not added. kDataLoss as Open. The thread of Add.
  absl::Status Replace(size_t number);
  /// How many times that has been done. What was read before it was done the last time may be of a copy that
  /// somebody had written to.
  int64_t replaced() const;
  /// Told of images that cannot be read: true, another copy of a shard of theirs is in its place now; false,
  /// there is nothing wrong with the files, or nothing to be done on this thread.
  using Mender = std::function<absl::StatusOr<bool>(absl::Span<const int64_t> ids)>;
  /// Before others read.
  void set_mender(Mender mender);
  /// False also where there is no mender.
  absl::StatusOr<bool> Mend(absl::Span<const int64_t> ids) const;
  /// Keeps shards from being dropped.
  using Held = std::vector<std::shared_ptr<const void>>;
  /// Of all these images; nothing where one is not there.
  std::optional<Held> Hold(absl::Span<const int64_t> ids) const;
  /// Those of its images alone: image i is the old ids[i]. REQUIRES: each is below size(), and they ascend.
  PackedSplit Restricted(std::vector<int64_t> ids) &&;
  PackedSplit(PackedSplit&&) noexcept;
  PackedSplit& operator=(PackedSplit&&) noexcept;
  ~PackedSplit();

  int64_t size() const;
  const std::string& name() const;
  /// Whether image i is there: its shard is, since Open or Add.
  bool has(int64_t i) const;
  /// Whether all shards are.
  bool has_all() const;
  /// The number of the shard that image i lies in.
  size_t shard_of(int64_t i) const;
  /// Images of each shard, in the order of the files; of a restricted split those that are left.
  std::vector<int64_t> shard_counts() const;
  /// Of all images; of the largest ones where they differ.
  int height() const;
  int width() const;
  /// True when the images are JPEG and PNG files: record() holds them, image() is not there.
  bool encoded() const;
  /// True when images differ in size.
  bool varies() const;
  static constexpr int channels() { return 3; }
  const std::vector<std::string>& class_names() const;
  /// uint8 [H, W, 3], row-major, in the mapped file. REQUIRES: !encoded().
  absl::Span<const uint8_t> image(int64_t i) const;
  /// The bytes of a JPEG or PNG file, in the mapped file; none where somebody has written to that and they
  /// cannot be found. REQUIRES: encoded().
  std::string_view record(int64_t i) const;
  ImageSize image_size(int64_t i) const;
  /// What decoding record(i) may spend: a damaged record that claims more pixels than its shard says is
  /// refused before memory is asked for them.
  DecodeLimits decode_limits(int64_t i) const;
  /// Asks the kernel to read image i from the disk, if it is not in memory, and does not wait for it.
  void WillNeed(int64_t i) const;
  int64_t label(int64_t i) const;
  /// SHA-256 of the canonical index of the whole data set: the same data has the same digest on every node.
  const std::string& digest() const;

 private:
  struct State;
  static absl::StatusOr<std::unique_ptr<State>> ReadState(const std::string& root, const std::string& split);
  explicit PackedSplit(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace mtrun::datasets
