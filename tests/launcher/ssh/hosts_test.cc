#include "launcher/ssh/hosts.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string ErrorOf(const absl::StatusOr<std::vector<Host>>& hosts) {
  EXPECT_EQ(hosts.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(hosts.status().message());
}

TEST(HostsTest, ListGivesHostsUsersAndWorkers) {
  EXPECT_THAT(*ParseHosts("a"), ElementsAre(Host{"", "a", 0}));
  EXPECT_THAT(*ParseHosts("a,me@b.example.org:8, c"),
              ElementsAre(Host{"", "a", 0}, Host{"me", "b.example.org", 8}, Host{"", "c", 0}));
  EXPECT_EQ(Destination({"me", "b", 8}), "me@b");
  EXPECT_EQ(Destination({"", "b", 8}), "b");
}

TEST(HostsTest, RangesHaveSlurmSyntax) {
  EXPECT_THAT(*ParseHosts("me@n[08-10,12]:4,m"),
              ElementsAre(Host{"me", "n08", 4}, Host{"me", "n09", 4}, Host{"me", "n10", 4},
                          Host{"me", "n12", 4}, Host{"", "m", 0}));
}

TEST(HostsTest, Ipv6AddressesAreInBrackets) {
  EXPECT_THAT(*ParseHosts("[2001:db8::1]:8,me@[::1],10.0.0.1:2"),
              ElementsAre(Host{"", "2001:db8::1", 8}, Host{"me", "::1", 0}, Host{"", "10.0.0.1", 2}));
  EXPECT_THAT(ErrorOf(ParseHosts("2001:db8::1")), HasSubstr("brackets"));
  for (const char* bad : {"[", "[]", "[::1", "[::1]x", "[a]:2", "[::1]:", "[::1]:2:3"})
    ErrorOf(ParseHosts(bad));
}

TEST(HostsTest, InvalidHostIsRefused) {
  for (const char* bad : {"",         ",",          "a,",   "a,,b", "-oProxyCommand=reboot",
                          "a;reboot", "a$(reboot)", "a`b`", "a b",  "a|b",
                          "a'b",      "a\"b",       "a/b",  "a\nb", "a\\b",
                          "*",        "me@",        "@a",   "-l@a", "a@b@c",
                          "m e@a",    "me;x@a",     "a:0",  "a:-1", "a:x",
                          "a:",       "a:9999",     "a:1:2"}) {
    EXPECT_THAT(ErrorOf(ParseHosts(bad)), HasSubstr("\"")) << bad;
  }
  EXPECT_THAT(ErrorOf(ParseHosts("-oProxyCommand=x")), HasSubstr("host"));
  EXPECT_THAT(ErrorOf(ParseHosts(std::string("a\0b", 3))), HasSubstr("\\x00"));
  EXPECT_THAT(ErrorOf(ParseHosts(std::string("[::1\0]", 6))), HasSubstr("not an IP address"));
  EXPECT_THAT(ErrorOf(ParseHosts("n[1-5000]")), HasSubstr("4096"));
  EXPECT_THAT(ErrorOf(ParseHosts("a,b,me@a")), AllOf(HasSubstr("\"a\""), HasSubstr("twice")));
  EXPECT_THAT(ErrorOf(ParseHosts("n[1,1]")), HasSubstr("twice"));
}

TEST(HostsTest, FileHasOneHostPerLine) {
  EXPECT_THAT(
      *ParseHostfile("# our nodes\n\nnode1 slots=8\r\n  me@node2\tslots=4 # slow\nnode3\n10.0.0.[4-5]:2"),
      ElementsAre(Host{"", "node1", 8}, Host{"me", "node2", 4}, Host{"", "node3", 0}, Host{"", "10.0.0.4", 2},
                  Host{"", "10.0.0.5", 2}));
}

TEST(HostsTest, ErrorNamesTheBadLine) {
  EXPECT_EQ(ErrorOf(ParseHostfile("a\n\nb slots=none\n")),
            "line 3: \"slots=none\": the number of a host's workers must be 1 to 4096");
  EXPECT_EQ(ErrorOf(ParseHostfile("a max_slots=3\n")),
            "line 1: \"max_slots=3\": only slots=N can follow a host");
  EXPECT_THAT(ErrorOf(ParseHostfile("a\nb\n a slots=2")), AllOf(HasSubstr("line 3"), HasSubstr("twice")));
  EXPECT_THAT(ErrorOf(ParseHostfile("a slots=2 slots=3")), HasSubstr("line 1"));
  EXPECT_THAT(ErrorOf(ParseHostfile("a:2 slots=3")), AllOf(HasSubstr("line 1"), HasSubstr("twice")));
  EXPECT_THAT(ErrorOf(ParseHostfile("ok\n-oProxyCommand=reboot")), HasSubstr("line 2"));
  EXPECT_THAT(ErrorOf(ParseHostfile("ok\n$(reboot)")), HasSubstr("line 2"));
  EXPECT_EQ(ErrorOf(ParseHostfile("# none\n")), "it names no host");
  EXPECT_EQ(ErrorOf(ParseHostfile("")), "it names no host");
  EXPECT_THAT(ErrorOf(ParseHostfile(std::string((1 << 20) + 1, '\n'))), HasSubstr("1 MiB"));
}

}  // namespace
}  // namespace mtrun::launcher
