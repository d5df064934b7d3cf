// PNG pictures (RFC 2083), for previews of augmented batches and grids of samples. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/types/span.h"

namespace mtrun::trainers {

/// The bytes of a file. `rgb`: height rows of width pixels of 3 bytes.
std::string EncodePng(int width, int height, absl::Span<const uint8_t> rgb);

}  // namespace mtrun::trainers
