#include "launcher/core/takeover_notice.h"

#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

constexpr uint64_t kOwn = 7;

rendezvous::ServiceHost ServedAt(const std::string& service, uint64_t presence) {
  rendezvous::ServiceHost host;
  host.embedded = true;
  host.service = service;
  host.presence = {"10.0.0.2:7000", presence};
  return host;
}

TEST(TakeoverNoticeTest, NodeThatServesNowNamesTheQuestion) {
  EXPECT_EQ(DescribeTakeover(ServedAt("", 1), ServedAt("10.0.0.2:36401", kOwn), kOwn, false),
            "this node serves the job's rendezvous now; ask it with: mtrun --status 10.0.0.2:36401");
  EXPECT_EQ(
      DescribeTakeover({}, ServedAt("10.0.0.2:36401", kOwn), kOwn, true),
      "this node serves the job's rendezvous now; ask it with: mtrun --insecure --status 10.0.0.2:36401");
}

TEST(TakeoverNoticeTest, OtherConnectionsAreNoNews) {
  const rendezvous::ServiceHost own = ServedAt("10.0.0.2:36401", kOwn);
  EXPECT_EQ(DescribeTakeover(own, own, kOwn, false), "") << "it was connected before";
  EXPECT_EQ(DescribeTakeover(ServedAt("", 1), ServedAt("10.0.0.3:36401", 8), kOwn, false), "");
  EXPECT_EQ(DescribeTakeover(own, ServedAt("", kOwn), kOwn, false), "") << "the endpoint";
  EXPECT_EQ(DescribeTakeover(ServedAt("", 1), ServedAt("10.0.0.3:1", 0), 0, false), "") << "no presence port";
}

}  // namespace
}  // namespace mtrun::launcher
