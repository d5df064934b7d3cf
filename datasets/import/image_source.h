// The interface of importers, and the sink for their images. An importer knows its counts after opening; then
// it copies its images.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "datasets/images/image.h"
#include "datasets/import/image_files.h"
#include "datasets/import/image_rules.h"
#include "datasets/packed/packed_writer.h"

namespace mtrun::datasets {

/// Takes images of the source's size, crops and resizes them, counts and writes them. Put is thread-safe.
class ImageSink {
 public:
  /// Put adds to `done`, and returns kCancelled once `*cancelled` is true.
  ImageSink(PackedWriter& writer, const ImageRules& rules, ImageSize target, std::atomic<int64_t>& done,
            const std::atomic<bool>& cancelled)
      : writer_(writer), rules_(rules), target_(target), done_(done), cancelled_(cancelled) {}

  /// Puts images first, first+1, ... of `split`; `pixels`: uint8 [labels.size(), size.height, size.width, 3].
  absl::Status Put(const std::string& split, int64_t first, absl::Span<const int64_t> labels,
                   const ImageSize& size, absl::Span<const uint8_t> pixels);

 private:
  PackedWriter& writer_;
  const ImageRules rules_;
  const ImageSize target_;
  std::atomic<int64_t>& done_;
  const std::atomic<bool>& cancelled_;
};

/// A file that cannot be imported, and why.
struct BadFile {
  std::string path;
  std::string why;
};

/// An opened source. Used from one thread; CopyTo starts `threads` of its own.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  /// Determines shape(); some sources have to decode images for that. Call before shape() and CopyTo.
  virtual absl::Status FindShape() { return absl::OkStatus(); }
  /// The image files of the source, for sets that keep them; null for a source of pixels.
  virtual const ImageFiles* files() const { return nullptr; }
  /// Sizes as in the source. After CopyTo, bad images are no longer counted.
  virtual PackedShape shape() const = 0;
  /// Writes all images except bad ones, which it returns: their places stay empty.
  virtual absl::StatusOr<std::vector<BadFile>> CopyTo(ImageSink& sink, int threads) = 0;
  /// Returns the number of copied images whose files had an orientation. Call after CopyTo.
  virtual int64_t oriented() const { return 0; }
};

}  // namespace mtrun::datasets
