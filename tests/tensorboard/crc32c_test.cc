#include "tensorboard/crc32c.h"

#include "gtest/gtest.h"

namespace mtrun::tensorboard {
namespace {

// RFC 3720, appendix B.4, and the check value of the CRC catalogues.
TEST(Crc32c, MatchesTheStandardsValues) {
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  std::string rising;
  for (int i = 0; i < 32; ++i) rising.push_back(static_cast<char>(i));
  EXPECT_EQ(Crc32c(rising), 0x46DD794Eu);
  EXPECT_EQ(Crc32c(""), 0u);
}

TEST(Crc32c, IsMaskedLikeTfRecord) {
  const uint32_t plain = Crc32c("event");
  EXPECT_EQ(MaskedCrc32c("event"), ((plain >> 15) | (plain << 17)) + 0xA282EAD8u);
}

}  // namespace
}  // namespace mtrun::tensorboard
