// A shard of encoded images (docs/formats.md, packed format version 2): its bytes from records, and back.
// Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "datasets/images/image.h"

namespace mtrun::datasets {

/// An image as a set of encoded images keeps it: the bytes of a JPEG or PNG file.
struct Record {
  std::string bytes;
  ImageSize size;
};

/// The bytes of a shard file in two parts, so that the images are not copied: what stands before them, and
/// the images one after the other. REQUIRES: as many labels as records, at least one.
std::string EncodeShardHead(absl::Span<const int64_t> labels, const std::vector<Record>& records);

/// Where things lie in a shard's bytes. Any alignment. The bytes may be a file that somebody writes to after
/// they were checked: what is read of them later is looked at again, or was copied.
struct EncodedShard {
  struct Sides {
    uint16_t height = 0, width = 0;
  };
  int64_t images = 0;
  const uint8_t* labels = nullptr;   // int64 [images]
  const uint8_t* offsets = nullptr;  // int64 [images + 1], from `bytes` on
  const uint8_t* bytes = nullptr;
  int64_t length = 0;        // of `bytes`
  std::vector<Sides> sizes;  // as they were checked

  int64_t label(int64_t i) const;
  ImageSize size(int64_t i) const;
  /// The file of image i; nothing where its offsets have been written to and lead elsewhere.
  std::string_view record(int64_t i) const;
};

/// Finds and checks all but the images themselves: offsets grow, begin at 0 and end with the bytes; sizes are
/// within 1..kMaxImageSide. kDataLoss says what is wrong. The result points into `file`.
absl::StatusOr<EncodedShard> ParseEncodedShard(absl::Span<const uint8_t> file, int64_t images);

}  // namespace mtrun::datasets
