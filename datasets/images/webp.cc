#include "datasets/images/webp.h"

#include <algorithm>
#include <memory>

#include <webp/decode.h>
#include <webp/demux.h>

#include "base/status_macros.h"

namespace mtrun::datasets {
namespace {

absl::Status DamagedWebp() { return absl::DataLossError("truncated or damaged WebP"); }

absl::StatusOr<ImageSize> BeginWebp(std::string_view file, const DecodeLimits& limits) {
  if (!IsWebp(file)) return absl::InvalidArgumentError("not a WebP image");
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(reinterpret_cast<const uint8_t*>(file.data()), file.size(), &features) != VP8_STATUS_OK)
    return DamagedWebp();
  MT_RETURN_IF_ERROR(CheckLimits(features.height, features.width, limits));
  return ImageSize{features.height, features.width};
}

}  // namespace

bool IsWebp(std::string_view file) {
  return file.size() >= 12 && file.substr(0, 4) == "RIFF" && file.substr(8, 4) == "WEBP";
}

absl::StatusOr<ImageSize> WebpSize(std::string_view file) {
  return BeginWebp(file, {.max_pixels = INT64_MAX});
}

absl::StatusOr<RgbImage> DecodeWebp(std::string_view file, const DecodeLimits& limits) {
  MT_ASSIGN_OR_RETURN(const ImageSize size, BeginWebp(file, limits));
  const WebPData data{reinterpret_cast<const uint8_t*>(file.data()), file.size()};
  WebPAnimDecoderOptions options;
  MT_CHECK(WebPAnimDecoderOptionsInit(&options) != 0) << "libwebp has another version than its headers";
  options.color_mode = MODE_RGBA;
  options.use_threads = 0;
  const std::unique_ptr<WebPAnimDecoder, decltype(&WebPAnimDecoderDelete)> decoder(
      WebPAnimDecoderNew(&data, &options), &WebPAnimDecoderDelete);
  WebPAnimInfo info;
  uint8_t* frame = nullptr;  // belongs to the decoder
  int milliseconds = 0;
  if (decoder == nullptr || WebPAnimDecoderGetInfo(decoder.get(), &info) == 0 ||
      static_cast<int64_t>(info.canvas_height) != size.height ||
      static_cast<int64_t>(info.canvas_width) != size.width ||
      WebPAnimDecoderGetNext(decoder.get(), &frame, &milliseconds) == 0)
    return DamagedWebp();
  RgbImage image = MakeImage(size);
  uint8_t* out = image.pixels.data();
  for (int64_t i = 0; i < size.pixels(); ++i) out = std::copy_n(frame + 4 * i, 3, out);
  return image;
}

}  // namespace mtrun::datasets
