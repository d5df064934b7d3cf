#include "launcher/core/host_eviction.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Returns nodes 0 to 2; node `without_service` cannot take over a job.
rendezvous::Assignment MembersWith(int without_service = -1) {
  rendezvous::Assignment last;
  last.generation = {4, 77};
  for (int i = 0; i < 3; ++i) {
    rendezvous::Member member;
    member.node_id = absl::StrCat("node", i, "-1-ab");
    member.host = absl::StrCat("node", i);
    member.address = absl::StrCat("10.0.0.", i + 1);
    member.node_rank = i;
    member.presence_id = static_cast<uint64_t>(100 + i);
    member.service_port = i == without_service ? 0 : 7000 + i;
    last.members.push_back(member);
  }
  return last;
}

const rendezvous::ServiceHost kSilentHost{true, {"10.0.0.1:5000", 100}};

TEST(HostEviction, SelectsTheHostByNameOrId) {
  for (const char* name : {"node0", "node0-1-ab"}) {
    const auto chosen = ChooseHost(MembersWith(), kSilentHost, "run7", name);
    ASSERT_TRUE(chosen.ok()) << chosen.status();
    EXPECT_EQ(chosen->job_id, "run7");
    EXPECT_EQ(chosen->node_id, "node0-1-ab");
    EXPECT_EQ(chosen->name, "node0");
    EXPECT_EQ(chosen->generation, (rendezvous::Generation{4, 77}));
  }
}

TEST(HostEviction, RefusesOtherNodes) {
  const auto why_not = [](const rendezvous::ServiceHost& host, const std::string& name) {
    return std::string(ChooseHost(MembersWith(), host, "run7", name).status().message());
  };
  EXPECT_THAT(why_not(kSilentHost, "node2"), HasSubstr("node2 does not host the rendezvous of job \"run7\""));
  EXPECT_THAT(why_not(kSilentHost, "node2"), HasSubstr("node0 does, and is silent"));
  EXPECT_THAT(why_not(kSilentHost, "node9"), HasSubstr("\"node9\" is no member of generation 4"));
  EXPECT_THAT(why_not({true, {"10.0.0.9:5000", 109}}, "node0"), HasSubstr("by no member of generation 4"));
  EXPECT_THAT(why_not({false, {}}, "node0"), HasSubstr("lives in no mtrun"));
}

TEST(HostEviction, IsSentToTheOtherServices) {
  EXPECT_THAT(ServicesWithout(MembersWith(), kSilentHost), ElementsAre("10.0.0.2:7001", "10.0.0.3:7002"));
  EXPECT_THAT(ServicesWithout(MembersWith(1), kSilentHost), ElementsAre("10.0.0.3:7002"));
  EXPECT_THAT(DescribeSilentHost(MembersWith(), kSilentHost),
              HasSubstr("mtrun --evict node0 10.0.0.2:7001,10.0.0.3:7002"));
  EXPECT_THAT(DescribeSilentHost(MembersWith(), {true, {"10.0.0.9:5000", 109}}),
              testing::Not(HasSubstr("--evict")));
}

}  // namespace
}  // namespace mtrun::launcher
