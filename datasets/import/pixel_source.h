// A source whose files hold pixels, all of one size, in memory.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "datasets/files/parallel.h"
#include "datasets/import/image_source.h"

namespace mtrun::datasets {

/// A Part is a file: images() returns their number, label(i) the label of one, and Pixels(i, out) writes it as
/// RgbImage::pixels.
template <typename Part>
class PixelSource : public ImageSource {
 public:
  /// `splits`: the parts of each, in the order of their images.
  PixelSource(const ImageSize& size, std::vector<std::string> classes,
              std::map<std::string, std::vector<Part>> splits)
      : size_(size), classes_(std::move(classes)), splits_(std::move(splits)) {}

  PackedShape shape() const override {
    PackedShape shape{.height = size_.height, .width = size_.width, .classes = classes_};
    for (const auto& [split, parts] : splits_) {
      for (const Part& part : parts) shape.splits[split] += part.images();
    }
    return shape;
  }

  absl::StatusOr<std::vector<BadFile>> CopyTo(ImageSink& sink, int threads) override {
    constexpr int64_t kChunk = 1024;
    const int64_t image_bytes = 3 * size_.pixels();
    for (const auto& [split, parts] : splits_) {
      int64_t before = 0;
      for (const Part& part : parts) {
        const auto copy = [&, &name = split](int64_t begin, int64_t end) {
          std::vector<int64_t> labels;
          std::vector<uint8_t> pixels((end - begin) * image_bytes);
          for (int64_t i = begin; i < end; ++i) {
            labels.push_back(part.label(i));
            part.Pixels(i, pixels.data() + (i - begin) * image_bytes);
          }
          return sink.Put(name, before + begin, labels, size_, pixels);
        };
        MT_RETURN_IF_ERROR(ParallelChunks(part.images(), kChunk, threads, copy));
        before += part.images();
      }
    }
    return std::vector<BadFile>();
  }

 private:
  const ImageSize size_;
  const std::vector<std::string> classes_;
  const std::map<std::string, std::vector<Part>> splits_;
};

}  // namespace mtrun::datasets
