// Cuts, resizes and recolours an image before it is placed and normalised. Pure functions, independent of
// LibTorch, thread-safe.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "datasets/images/image_file.h"
#include "datasets/packed/packed.h"
#include "trainers/input/colour_jitter.h"
#include "trainers/input/random_crop.h"
#include "trainers/random/random_stream.h"

namespace mtrun::trainers {

/// Growth of images during a run.
struct ImageGrowth {
  int from = 0;       // pixels a side at first; 0: images do not grow
  int64_t first = 0;  // epochs of that size
  int64_t end = 0;    // epochs before the last size is reached
  bool operator==(const ImageGrowth&) const = default;
};
/// Returns the pixels a side in an epoch (from 0) of a run whose images end with `last`. The size grows
/// linearly from the last epoch of the first size to the first epoch of the last size, in multiples of 32.
int SizeInEpoch(const ImageGrowth& growth, int last, int64_t epoch);

struct Reading {
  std::optional<RandomCrop> crop = {};  // nullopt: the middle square of files, or all of pixels
  ColourJitter jitter = {};
  ImageGrowth growth = {};
  datasets::DecodeMode decode = datasets::DecodeMode::kFast;
  /// Returns whether an image changes each time, so that one epoch's bytes cannot serve the next.
  bool changes() const { return crop || jitter.any() || growth.from > 0; }
};

/// Returns whether images of `data` are cut and resized for a network of `size` pixels a side. If not, they
/// are used whole, even if they are smaller.
bool IsCut(const datasets::PackedSplit& data, const Reading& reading, int size);
/// Returns the image size that ReadImage writes.
datasets::ImageSize ReadSize(const datasets::PackedSplit& data, const Reading& reading, int size);

/// Writes image `id` as uint8 [height, width, 3] of ReadSize. `number`: index of the image in its
/// micro-batch; `stream`: that micro-batch's, of purpose kReadPurpose. kDataLoss names the image.
absl::Status ReadImage(const datasets::PackedSplit& data, const Reading& reading, int64_t id, int size,
                       const RandomStream& stream, int64_t number, uint8_t* out);
inline constexpr char kReadPurpose[] = "read";

/// Requested way to decode. The numbers are stored in checkpoints.
enum class DecodeChoice { kAuto = 0, kExact = 1, kFast = 2 };
/// Parses "auto", "exact" or "fast".
absl::StatusOr<DecodeChoice> ParseDecodeChoice(std::string_view text);
/// Returns the decode mode. Auto is fast if images change each time: no other path must match them then.
datasets::DecodeMode DecodeModeFor(DecodeChoice choice, const Reading& reading);

}  // namespace mtrun::trainers
