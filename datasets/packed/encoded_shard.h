// A shard of encoded images (docs/formats.md, packed format version 2): conversion of records to bytes and
// back. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "datasets/images/image.h"

namespace mtrun::datasets {

/// An image in a set of encoded images: the bytes of a JPEG or PNG file.
struct Record {
  std::string bytes;
  ImageSize size;
  bool oriented = false;  // the source's file said that its pixels are not upright
};

/// Returns the bytes of a shard file before the images, which follow one after the other; two parts, so that
/// the images are not copied. REQUIRES: as many labels as records, at least one.
std::string EncodeShardHead(absl::Span<const int64_t> labels, const std::vector<Record>& records);

/// The layout of a shard's bytes, at any alignment. If the bytes are a mapped file, another process may
/// change them after the check, so each value is either copied or checked again when it is read.
struct EncodedShard {
  struct Sides {
    uint16_t height = 0, width = 0;
  };
  int64_t images = 0;
  const uint8_t* labels = nullptr;   // int64 [images]
  const uint8_t* offsets = nullptr;  // int64 [images + 1], relative to `bytes`
  const uint8_t* bytes = nullptr;
  int64_t length = 0;        // length of `bytes`
  std::vector<Sides> sizes;  // as checked

  int64_t label(int64_t i) const;
  ImageSize size(int64_t i) const;
  /// Returns the file of image i; empty if its offsets were overwritten and are invalid now.
  std::string_view record(int64_t i) const;
};

/// Finds and checks everything except the images: offsets ascend from 0 to the number of bytes; sizes are
/// within 1..kMaxImageSide. kDataLoss: the message says what is wrong. The result points into `file`.
absl::StatusOr<EncodedShard> ParseEncodedShard(absl::Span<const uint8_t> file, int64_t images);

}  // namespace mtrun::datasets
