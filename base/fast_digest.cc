#include "base/fast_digest.h"

#include <cstring>

#include "base/splitmix.h"

namespace mtrun {

uint64_t FastDigest(const char* bytes, size_t size, uint64_t before) {
  uint64_t digest = before;
  size_t at = 0;
  for (; at + 8 <= size; at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + at, 8);
    digest = (digest ^ word) * 0x9E3779B97F4A7C15;
    digest ^= digest >> 29;
  }
  uint64_t rest = 0;
  std::memcpy(&rest, bytes + at, size - at);
  return SplitMix64((digest ^ rest) + size);
}

}  // namespace mtrun
