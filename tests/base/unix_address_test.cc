#include "base/unix_address.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status.h"

namespace mtrun {
namespace {

using support::StatusIs;
using testing::HasSubstr;

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
  EXPECT_TRUE(ParseUnixAddress(std::string(107, 'x')).ok());
  for (const std::string& bad : {std::string(), std::string(108, 'x')}) {
    EXPECT_THAT(ParseUnixAddress(bad),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not a valid name of a Unix socket")));
  }
}

/// A connection of a process of `user` to a listener of this one.
class PeerTest : public testing::TestWithParam<uid_t> {};

TEST_P(PeerTest, OnlyThisUserAndRootAreTrusted) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const UnixAddress address = *ParseUnixAddress(absl::StrCat("@mtrun-peer-test-", getpid(), "-", GetParam()));
  const UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(listener.get(), address.get(), address.size), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  const pid_t peer = fork();
  if (peer == 0) {
    const UniqueFd dialed(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (setuid(GetParam()) != 0 || connect(dialed.get(), address.get(), address.size) != 0) _exit(2);
    _exit(IsOfThisUser(dialed.get()) ? 0 : 1);  // root listens
  }
  const UniqueFd accepted(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_EQ(IsOfThisUser(accepted.get()), GetParam() == 0);
  int status = -1;
  EXPECT_EQ(waitpid(peer, &status, 0), peer);
  EXPECT_EQ(status, 0);
}

INSTANTIATE_TEST_SUITE_P(Users, PeerTest, testing::Values(0, 65534));

TEST(UnixAddress, DescriptorThatIsNotASocketIsNotTrusted) { EXPECT_FALSE(IsOfThisUser(-1)); }

}  // namespace
}  // namespace mtrun
