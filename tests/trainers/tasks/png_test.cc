#include "trainers/tasks/png.h"

#include <vector>

#include <gtest/gtest.h>
#include <zlib.h>

#include "tests/trainers/support/big_endian.h"

namespace mtrun::trainers {
namespace {

using testing::BigEndian;

struct Chunk {
  std::string kind, data;
};

std::vector<Chunk> Chunks(const std::string& file) {
  EXPECT_EQ(file.substr(0, 8), "\x89PNG\r\n\x1a\n");
  std::vector<Chunk> chunks;
  for (size_t at = 8; at + 12 <= file.size();) {
    const uint32_t size = BigEndian(file, at);
    const std::string checked = file.substr(at + 4, 4 + size);
    EXPECT_EQ(BigEndian(file, at + 8 + size),
              crc32_z(0, reinterpret_cast<const Bytef*>(checked.data()), checked.size()));
    chunks.push_back({checked.substr(0, 4), checked.substr(4)});
    at += 12 + size;
  }
  return chunks;
}

TEST(png, HoldsThePixelsRowByRow) {
  const std::vector<uint8_t> rgb{255, 0, 0, 0, 255, 0, 0, 0, 255, 1, 2, 3};
  const auto chunks = Chunks(EncodePng(2, 2, rgb));
  ASSERT_EQ(chunks.size(), 3u);
  EXPECT_EQ(chunks[0].kind, "IHDR");
  EXPECT_EQ(chunks[0].data, std::string("\0\0\0\2\0\0\0\2\10\2\0\0\0", 13));
  EXPECT_EQ(chunks[2].kind, "IEND");
  std::string raw(14, 0);
  uLongf size = raw.size();
  ASSERT_EQ(uncompress(reinterpret_cast<Bytef*>(raw.data()), &size,
                       reinterpret_cast<const Bytef*>(chunks[1].data.data()), chunks[1].data.size()),
            Z_OK);
  ASSERT_EQ(size, 14u);
  EXPECT_EQ(raw, std::string("\0\xff\0\0\0\xff\0\0\0\0\xff\1\2\3", 14));
}

}  // namespace
}  // namespace mtrun::trainers
