#include "base/presence_greeting.h"

#include "gtest/gtest.h"

namespace mtrun {
namespace {

TEST(PresenceGreetingTest, ContainsTheNameAndTheIdInBigEndian) {
  const std::string greeting = PresenceGreeting(0x0102030405FF0708ull);
  EXPECT_EQ(greeting, std::string("mtrun-up\x01\x02\x03\x04\x05\xFF\x07\x08", 16));
  EXPECT_EQ(greeting.size(), kPresenceGreetingSize);
}

}  // namespace
}  // namespace mtrun
