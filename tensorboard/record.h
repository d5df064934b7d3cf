// Frames of a TFRecord file: length (8 bytes, little-endian), masked CRC32C of the length, the bytes, masked
// CRC32C of the bytes. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace mtrun::tensorboard {

/// Appends `record` in its frame to `out`.
void AppendFrame(std::string& out, std::string_view record);

}  // namespace mtrun::tensorboard
