// The markers of a JPEG file (ISO 10918-1, annex B), found as libjpeg finds them. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mtrun::datasets {

constexpr uint8_t kStartOfScan = 0xDA, kEndOfImage = 0xD9, kApp1 = 0xE1;

/// Returns the position of the code of the next marker at or after `at`: skips stray bytes, fill bytes (FF)
/// and stuffed zeros. npos if there is none.
inline size_t FindMarkerCode(std::string_view file, size_t at) {
  while ((at = file.find('\xFF', at)) != std::string_view::npos) {
    at = file.find_first_not_of('\xFF', at);
    if (at == std::string_view::npos || file[at] != '\0') return at;
  }
  return at;
}

/// Returns true for RST0..RST7.
inline bool IsRestart(uint8_t marker) { return marker >= 0xD0 && marker <= 0xD7; }

/// Returns true for markers without a length: RST0..RST7, TEM.
inline bool StandsAlone(uint8_t marker) { return IsRestart(marker) || marker == 0x01; }

}  // namespace mtrun::datasets
