// Writes a packed data set (docs/formats.md): counts first, then images in any order and from any thread,
// then Finish. The destination does not exist before Finish has succeeded. The same images give the same
// bytes in any order. Put: any threads concurrently, before Finish. All else: one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "datasets/packed/atomic_folder.h"
#include "datasets/packed/index.h"

namespace mtrun::datasets {

/// The properties of a data set that are known before its images.
struct PackedShape {
  int height = 0;
  int width = 0;
  std::vector<std::string> classes;
  std::map<std::string, int64_t> splits = {};  // number of images in each
  std::string orientation = {};                // Index::orientation
  int64_t image_bytes() const { return int64_t{3} * height * width; }
  int64_t images() const;
};

class PackedWriter {
 public:
  struct Options {
    int64_t shard_bytes = 64 << 20;  // limit per shard of images and labels, or one image
    bool replace = false;            // an existing data set at the destination
  };

  /// kInvalidArgument: the shape is empty or a class name is empty, duplicate or not plain text;
  /// kAlreadyExists: see AtomicFolder; kResourceExhausted: too little disk space.
  static absl::StatusOr<std::unique_ptr<PackedWriter>> Create(const std::string& destination,
                                                              const PackedShape& shape,
                                                              const Options& options);
  ~PackedWriter();

  /// Writes images first, first+1, ... of `split`: `pixels` is uint8 [labels.size(), H, W, 3]. Each image at
  /// most once. REQUIRES: labels below the number of classes.
  absl::Status Put(const std::string& split, int64_t first, absl::Span<const int64_t> labels,
                   absl::Span<const uint8_t> pixels);
  /// Removes images that were not put; those after them move up. Copies the images by reading them back.
  /// kInvalidArgument: no image of train was put. Call once, after the last Put.
  absl::Status CloseGaps();
  /// Writes the index and publishes. REQUIRES: every image was put, or CloseGaps.
  absl::StatusOr<Index> Finish();

 private:
  class ShardWriter;
  PackedWriter(AtomicFolder folder, const PackedShape& shape, int64_t shard_bytes);
  absl::Status MakeSplit(const std::string& split, int64_t images);

  // Constant after Create, except for CloseGaps.
  AtomicFolder folder_;
  PackedShape shape_;
  const int64_t images_per_shard_;
  std::map<std::string, std::vector<std::unique_ptr<ShardWriter>>> splits_;
};

}  // namespace mtrun::datasets
