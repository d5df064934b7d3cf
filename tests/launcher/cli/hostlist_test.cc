#include "launcher/cli/hostlist.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

TEST(Hostlist, NamesRangesAndWidths) {
  EXPECT_THAT(*ExpandHostlist("login"), ElementsAre("login"));
  EXPECT_THAT(*ExpandHostlist("a,b-2.example.org"), ElementsAre("a", "b-2.example.org"));
  EXPECT_THAT(*ExpandHostlist("node[08-11,3]"), ElementsAre("node08", "node09", "node10", "node11", "node3"));
  EXPECT_THAT(*ExpandHostlist("gpu[1-2]-x,cpu7"), ElementsAre("gpu1-x", "gpu2-x", "cpu7"));
  EXPECT_THAT(*ExpandHostlist("r[1-2]n[0-1]"), ElementsAre("r1n0", "r1n1", "r2n0", "r2n1"));
  EXPECT_THAT(*ExpandHostlist("n[0-65535]"), SizeIs(65536));
}

TEST(Hostlist, InvalidListIsRefused) {
  for (const char* text : {"",      ",",        "a,",     ",a",   "a,,b",  "n[",   "n[1",    "n[]",
                           "n[1-]", "n[-1]",    "n[3-1]", "n[a]", "n[1,]", "n]1[", "n[[1]]", "n[1]]",
                           "n 1",   "n;reboot", "$(id)",  "n\n",  "-o",    "[1-2", "n[1 ]"}) {
    const auto hosts = ExpandHostlist(text);
    EXPECT_EQ(hosts.status().code(), absl::StatusCode::kInvalidArgument) << "\"" << text << "\"";
    EXPECT_THAT(std::string(hosts.status().message()), HasSubstr("is not a list of hosts")) << text;
  }
}

TEST(Hostlist, HostileListIsRefusedCheaply) {
  for (const char* text : {"n[0-999999999]", "n[0-65536]", "n[0-9999]m[0-9999]", "n[0-40000],m[0-40000]",
                           "n[0-999]n[0-999]n[0-999]n[0-999]", "n[00000000000000000001-2]"}) {
    EXPECT_FALSE(ExpandHostlist(text).ok()) << text;
  }
  EXPECT_FALSE(ExpandHostlist(std::string(2 << 20, 'a')).ok());
  EXPECT_FALSE(ExpandHostlist(std::string(300, 'a')).ok());
  const auto bell = ExpandHostlist("n\a");
  EXPECT_THAT(std::string(bell.status().message()), HasSubstr("n\\x07"));
}

TEST(Hostlist, ReadsTaskCounts) {
  EXPECT_THAT(*ExpandCounts("4"), ElementsAre(4));
  EXPECT_THAT(*ExpandCounts("2(x3),1"), ElementsAre(2, 2, 2, 1));
  for (const char* text : {"", "x", "2(x)", "2(x3", "2(x0)", "-1", "1,,2", "2(x999999999)", "(x2)"})
    EXPECT_FALSE(ExpandCounts(text).ok()) << text;
}

}  // namespace
}  // namespace mtrun::launcher
