// CRC32C (Castagnoli; RFC 3720, appendix B.4), the checksum of TFRecord files. Pure functions.
#pragma once

#include <cstdint>
#include <string_view>

namespace mtrun::tensorboard {

uint32_t Crc32c(std::string_view bytes);

/// As TFRecord stores it: rotated and moved, so that the checksum of data that hold checksums stays a good
/// one.
uint32_t MaskedCrc32c(std::string_view bytes);

}  // namespace mtrun::tensorboard
