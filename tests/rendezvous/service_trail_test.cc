#include "rendezvous/client/service_trail.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ServiceTrailTest, NamedServiceIsAskedNextAndOnce) {
  ServiceTrail trail({"a:1", "b:1"});
  EXPECT_EQ(trail.Next(), "a:1");
  trail.Follow("a:1", "");
  trail.Follow("a:1", "c:1");
  trail.Follow("a:1", "c:1");
  EXPECT_EQ(trail.Next(), "c:1");
  trail.Follow("c:1", "a:1");
  trail.Follow("c:1", "c:1");
  EXPECT_EQ(trail.Next(), "b:1");
  EXPECT_EQ(trail.Next(), "");
}

TEST(ServiceTrailTest, ServiceOfTheListComesFirstIfItIsNamed) {
  ServiceTrail trail({"a:1", "b:1", "c:1"});
  EXPECT_EQ(trail.Next(), "a:1");
  trail.Follow("a:1", "c:1");
  EXPECT_THAT(trail.Rest(), ElementsAre("c:1", "b:1"));
  EXPECT_THAT(trail.Rest(), IsEmpty());
}

TEST(ServiceTrailTest, FollowsAFewHopsOnly) {
  ServiceTrail trail({"a:1"});
  std::string asked = trail.Next();
  int hops = 0;
  for (int i = 2; !asked.empty(); ++i) {
    trail.Follow(asked, absl::StrCat("a:", i));
    asked = trail.Next();
    if (!asked.empty()) ++hops;
  }
  EXPECT_EQ(hops, ServiceTrail::kMaxHops);
}

/// The node on the endpoint's machine may know itself by a loopback address only.
TEST(ServiceTrailTest, LoopbackIsTheMachineThatWasAsked) {
  const auto followed = [](const std::string& asked, const std::string& place) {
    ServiceTrail trail({asked});
    trail.Next();
    trail.Follow(asked, place);
    return trail.Next();
  };
  EXPECT_EQ(followed("10.0.0.1:29400", "127.0.0.1:7000"), "10.0.0.1:7000");
  EXPECT_EQ(followed("[fd00::1]:29400", "[::1]:7000"), "[fd00::1]:7000");
  EXPECT_EQ(followed("localhost:29400", "127.0.0.2:7000"), "127.0.0.2:7000");
  EXPECT_EQ(followed("127.0.0.1:29400", "10.0.0.2:7000"), "10.0.0.2:7000");
  for (const char* wrong : {"a b:1", "x:y", ":", "a:1,b:1"}) EXPECT_EQ(followed("a:1", wrong), "") << wrong;
}

}  // namespace
}  // namespace mtrun::rendezvous
