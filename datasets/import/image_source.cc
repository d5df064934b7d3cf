#include "datasets/import/image_source.h"

#include "base/status_macros.h"

namespace mtrun::datasets {

absl::Status ImageSink::Put(const std::string& split, int64_t first, absl::Span<const int64_t> labels,
                            const ImageSize& size, absl::Span<const uint8_t> pixels) {
  if (cancelled_) return absl::CancelledError("stopped");
  if (size == target_) {
    MT_RETURN_IF_ERROR(writer_.Put(split, first, labels, pixels));
  } else {
    const size_t image_bytes = size_t{3} * size.height * size.width;
    for (size_t i = 0; i < labels.size(); ++i) {
      const auto from = pixels.subspan(i * image_bytes, image_bytes);
      const RgbImage image = FitImage({size, {from.begin(), from.end()}}, rules_);
      MT_RETURN_IF_ERROR(
          writer_.Put(split, first + static_cast<int64_t>(i), labels.subspan(i, 1), image.pixels));
    }
  }
  done_ += static_cast<int64_t>(labels.size());
  return absl::OkStatus();
}

}  // namespace mtrun::datasets
