#include "tensorboard/crc32c.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

namespace mtrun::tensorboard {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;  // reflected
constexpr uint32_t kMaskDelta = 0xA282EAD8;   // defined by the TFRecord format
constexpr size_t kSlices = 8;

using Tables = std::array<std::array<uint32_t, 256>, kSlices>;

/// tables[k][b] is the checksum of byte b followed by k zero bytes.
constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = value;
  }
  for (size_t k = 1; k < kSlices; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

uint32_t AddByte(uint32_t sum, char byte) {
  return (sum >> 8) ^ kTables[0][(sum ^ static_cast<uint8_t>(byte)) & 0xFF];
}

}  // namespace

uint32_t Crc32c(std::string_view bytes) {
  static_assert(std::endian::native == std::endian::little);
  uint32_t sum = ~uint32_t{0};
  while (bytes.size() >= kSlices) {
    uint64_t block;
    std::memcpy(&block, bytes.data(), sizeof(block));
    block ^= sum;
    sum = 0;
    for (size_t k = 0; k < kSlices; ++k) sum ^= kTables[kSlices - 1 - k][(block >> (8 * k)) & 0xFF];
    bytes.remove_prefix(kSlices);
  }
  for (const char byte : bytes) sum = AddByte(sum, byte);
  return ~sum;
}

uint32_t MaskedCrc32c(std::string_view bytes) { return std::rotr(Crc32c(bytes), 15) + kMaskDelta; }

}  // namespace mtrun::tensorboard
