// What every importer offers, and where its images go. An importer knows its counts after opening and then
// copies its images.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "datasets/image_files.h"
#include "datasets/image_rules.h"
#include "datasets/images/image.h"
#include "datasets/packed_writer.h"

namespace mtrun::datasets {

/// Takes images of the source's size, cuts and resizes them if asked to, counts and writes them. Put is
/// thread-safe.
class ImageSink {
 public:
  /// `done` is counted up; kCancelled from Put once `*cancelled` is true.
  ImageSink(PackedWriter& writer, const ImageRules& rules, ImageSize target, std::atomic<int64_t>& done,
            const std::atomic<bool>& cancelled)
      : writer_(writer), rules_(rules), target_(target), done_(done), cancelled_(cancelled) {}

  /// Images first, first+1, ... of a split; `pixels` is uint8 [labels.size(), size.height, size.width, 3].
  absl::Status Put(const std::string& split, int64_t first, absl::Span<const int64_t> labels,
                   const ImageSize& size, absl::Span<const uint8_t> pixels);

 private:
  PackedWriter& writer_;
  const ImageRules rules_;
  const ImageSize target_;
  std::atomic<int64_t>& done_;
  const std::atomic<bool>& cancelled_;
};

/// What every importer is asked for.
struct SourceOptions {
  ImageRules rules = {};
  TreeOptions tree = {};
  std::string spool_folder = ".";                 // see Contents
  std::string val_source = "", test_source = "";  // of these splits, where they lie elsewhere
  std::string val_labels = "";                    // file: the classes of val's images (ground_truth.h)
  std::string class_list = "";                    // file: names of the classes (class_list.h)
};

/// A file that cannot be imported, and why.
struct BadFile {
  std::string path;
  std::string why;
};

/// One opened source. Used from one thread; CopyTo starts `threads` of its own.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  /// Finds out what shape() says, for which some sources have to decode images. Before shape() and CopyTo.
  virtual absl::Status FindShape() { return absl::OkStatus(); }
  /// The image files that it is made of, for sets that keep them; null for a source of pixels.
  virtual const ImageFiles* files() const { return nullptr; }
  /// Sizes as in the source. Images that CopyTo has found bad are no longer counted.
  virtual PackedShape shape() const = 0;
  /// Puts all images but the bad ones, which it returns: their places stay empty.
  virtual absl::StatusOr<std::vector<BadFile>> CopyTo(ImageSink& sink, int threads) = 0;
};

}  // namespace mtrun::datasets
