// CRC32C (Castagnoli; RFC 3720, appendix B.4), the checksum of TFRecord files. Pure functions.
#pragma once

#include <cstdint>
#include <string_view>

namespace mtrun::tensorboard {

uint32_t Crc32c(std::string_view bytes);

/// Returns the checksum as TFRecord stores it: rotated and offset, so that it stays reliable for data that
/// contain checksums.
uint32_t MaskedCrc32c(std::string_view bytes);

}  // namespace mtrun::tensorboard
