#include "base/splitmix.h"

#include <gtest/gtest.h>

namespace mtrun {
namespace {

// Numbers from the parity README for seed 0.
TEST(NamedStream, MatchesThePublishedBits) {
  constexpr NamedStream stream(0, "conv1.weight");
  EXPECT_EQ(stream.At(0), 0x66fe113a436f513eull);
  EXPECT_EQ(stream.At(1), 0x3b022f89de069d4full);
  EXPECT_EQ(stream.At(2), 0xc17c60b32623ae4bull);
}

TEST(NamedStream, MatchesThePublishedSignedAndNormalValues) {
  EXPECT_FLOAT_EQ(static_cast<float>(NamedStream(0, "conv1.weight").Signed(0)), -0.19537148f);
  const NamedStream noise(0, "noise/0/0");
  EXPECT_FLOAT_EQ(static_cast<float>(noise.Normal(0)), 0.57058287f);
  EXPECT_FLOAT_EQ(static_cast<float>(noise.Normal(1)), -0.24752784f);
}

TEST(NamedStream, SeedsAndNamesGiveDifferentStreams) {
  EXPECT_NE(NamedStream(0, "a").At(0), NamedStream(1, "a").At(0));
  EXPECT_NE(NamedStream(0, "a").At(0), NamedStream(0, "b").At(0));
}

}  // namespace
}  // namespace mtrun
