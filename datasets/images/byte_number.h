// Numbers in the headers of files. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mtrun::datasets {

/// Reads `count` (at most 8) bytes at `at` as a number; 0 if they are not all inside.
inline uint64_t NumberAt(std::string_view bytes, size_t at, size_t count, bool little_endian) {
  if (at > bytes.size() || count > bytes.size() - at) return 0;
  uint64_t value = 0;
  for (size_t i = 0; i < count; ++i)
    value = value << 8 | static_cast<uint8_t>(bytes[little_endian ? at + count - 1 - i : at + i]);
  return value;
}

}  // namespace mtrun::datasets
