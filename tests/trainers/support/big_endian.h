// Numbers in a PNG file, for tests that read one.
#pragma once

#include <cstdint>
#include <string>

namespace mtrun::trainers::testing {

/// The four bytes from `at` on.
inline uint32_t BigEndian(const std::string& bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

}  // namespace mtrun::trainers::testing
