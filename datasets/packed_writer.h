// Writes a packed data set (docs/formats.md): counts first, images in any order and from any thread, then
// Finish. Nothing is at the destination before Finish has succeeded; the same images give the same bytes,
// whoever puts them when. Create, Finish and the destructor: one thread. Put: any threads at once, before
// Finish.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "datasets/index.h"

namespace mtrun::datasets {

/// What is known of a data set before its images are.
struct PackedShape {
  int height = 0;
  int width = 0;
  std::vector<std::string> classes;
  std::map<std::string, int64_t> splits = {};  // images of each
  int64_t image_bytes() const { return int64_t{3} * height * width; }
  int64_t images() const;
};

class PackedWriter {
 public:
  struct Options {
    int64_t shard_bytes = 64 << 20;  // a shard has at most this many bytes of images and labels, or one image
    bool replace = false;            // an existing data set at the destination
  };

  /// kInvalidArgument: the shape is empty or a class name is empty, double or not plain text; kAlreadyExists:
  /// see AtomicFolder; kResourceExhausted: the disk has too little room.
  static absl::StatusOr<std::unique_ptr<PackedWriter>> Create(const std::string& destination,
                                                              const PackedShape& shape,
                                                              const Options& options);
  ~PackedWriter();

  /// Images first, first+1, ... of a split: `pixels` is uint8 [labels.size(), H, W, 3]. Each image at most
  /// once. REQUIRES: labels below the number of classes.
  absl::Status Put(const std::string& split, int64_t first, absl::Span<const int64_t> labels,
                   absl::Span<const uint8_t> pixels);
  /// Leaves out the images that were not put: those behind them move up. Copies what was put, by reading it
  /// back. kInvalidArgument: no image of train was put. Once, after the last Put.
  absl::Status CloseGaps();
  /// Writes the index and publishes. REQUIRES: every image was put, or CloseGaps.
  absl::StatusOr<Index> Finish();

 private:
  class Impl;
  explicit PackedWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace mtrun::datasets
