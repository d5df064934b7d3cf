// What is made of an image's file before the image is placed and normalised: its part, its size, its colours.
// Pure functions; free of LibTorch; thread-safe.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "datasets/images/image_file.h"
#include "datasets/packed.h"
#include "trainers/input/colour_jitter.h"
#include "trainers/input/random_crop.h"
#include "trainers/random/random_stream.h"

namespace mtrun::trainers {

/// Images that grow while a run goes on.
struct ImageGrowth {
  int from = 0;       // pixels a side at first; 0: they do not grow
  int64_t first = 0;  // epochs of that size
  int64_t end = 0;    // epochs before those of the last size
  bool operator==(const ImageGrowth&) const = default;
};
/// Pixels a side in an epoch (from 0) of a run whose images end with `last`: from the last epoch of the first
/// size to the first one of the last size linearly, in multiples of 32.
int SizeInEpoch(const ImageGrowth& growth, int last, int64_t epoch);

struct Reading {
  std::optional<RandomCrop> crop = {};  // nothing: the square in the middle of files, all of pixels
  ColourJitter jitter = {};
  ImageGrowth growth = {};
  datasets::DecodeMode decode = datasets::DecodeMode::kFast;
  /// Whether an image is another one each time, so that no epoch's bytes serve the next.
  bool changes() const { return crop || jitter.any() || growth.from > 0; }
};

/// Whether images of `data` that come to a network at `size` pixels a side are cut and resized; else they are
/// taken whole, smaller ones too.
bool IsCut(const datasets::PackedSplit& data, const Reading& reading, int size);
/// Of the bytes that ReadImage makes.
datasets::ImageSize ReadSize(const datasets::PackedSplit& data, const Reading& reading, int size);

/// Writes image `id` as uint8 [height, width, 3] of ReadSize. `number`: of the image in its micro-batch;
/// `stream`: that micro-batch's, of purpose kReadPurpose. kDataLoss names the image.
absl::Status ReadImage(const datasets::PackedSplit& data, const Reading& reading, int64_t id, int size,
                       const RandomStream& stream, int64_t number, uint8_t* out);
inline constexpr char kReadPurpose[] = "read";

/// What is asked for; the numbers stand in checkpoints.
enum class DecodeChoice { kAuto = 0, kExact = 1, kFast = 2 };
/// "auto", "exact" or "fast".
absl::StatusOr<DecodeChoice> ParseDecodeChoice(std::string_view text);
/// Auto is fast where an image is another one each time, and no other way to it can be expected to make the
/// same.
datasets::DecodeMode DecodeModeFor(DecodeChoice choice, const Reading& reading);

}  // namespace mtrun::trainers
