#include "base/unix_address.h"

#include <cstddef>
#include <string>

#include "gtest/gtest.h"

namespace mtrun {
namespace {

TEST(UnixAddress, PathEndsWithAZero) {
  const auto address = ParseUnixAddress("/tmp/s");
  ASSERT_TRUE(address.ok());
  EXPECT_STREQ(address->address.sun_path, "/tmp/s");
  EXPECT_EQ(address->size, offsetof(sockaddr_un, sun_path) + 7);
}

TEST(UnixAddress, AbstractNameStartsWithAZero) {
  const auto address = ParseUnixAddress("@name");
  ASSERT_TRUE(address.ok());
  EXPECT_EQ(std::string(address->address.sun_path, 5), std::string("\0name", 5));
  EXPECT_EQ(address->size, offsetof(sockaddr_un, sun_path) + 5);
}

TEST(UnixAddress, OthersAreRefused) {
  EXPECT_FALSE(ParseUnixAddress("").ok());
  EXPECT_TRUE(ParseUnixAddress(std::string(107, 'x')).ok());
  EXPECT_FALSE(ParseUnixAddress(std::string(108, 'x')).ok());
}

}  // namespace
}  // namespace mtrun
