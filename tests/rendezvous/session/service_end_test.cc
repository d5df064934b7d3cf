#include "rendezvous/session/service_end.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::ElementsAre;

using End = ServiceEnd<std::string>;

constexpr uint64_t kId = 77;

TEST(ServiceEnd, FirstStreamStartsAtOne) {
  End end(kId);
  EXPECT_FALSE(end.Open(0, 0));
  EXPECT_FALSE(End(kId).Open(5, 3));  // an agent that comes from another service
}

TEST(ServiceEnd, ContinuesWithAnAgentThatReceivedItsWelcome) {
  End end(kId);
  end.Open(0, 0);
  end.sender.Add("a");
  end.sender.Add("b");
  while (end.sender.Next()) {
  }
  end.receiver.Take(1);
  std::vector<std::string> done;
  EXPECT_TRUE(end.Open(kId, 1, &done));
  EXPECT_THAT(done, ElementsAre("a"));
  EXPECT_EQ(end.receiver.received(), 1u);
  const auto next = end.sender.Next();
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->sequence, 2u);
  EXPECT_EQ(*next->message, "b");
}

TEST(ServiceEnd, ContinuesWithAnAgentThatReceivedNoWelcome) {
  End end(kId);
  end.Open(0, 0);
  end.receiver.Take(1);
  EXPECT_TRUE(end.Open(0, 0));
  EXPECT_EQ(end.receiver.received(), 1u);
}

TEST(ServiceEnd, StartsAtOneWithAnAgentOfAnotherService) {
  End end(kId);
  end.Open(0, 0);
  end.sender.Add("a");
  end.sender.Add("b");
  while (end.sender.Next()) {
  }
  end.sender.Acknowledge(1);
  end.receiver.Take(1);
  EXPECT_FALSE(end.Open(kId + 1, 9));
  EXPECT_EQ(end.receiver.received(), 0u);
  const auto next = end.sender.Next();
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->sequence, 1u);
  EXPECT_EQ(*next->message, "b");
}

TEST(ServiceEnd, OutdatedHelloIsIgnored) {
  End end(kId);
  EXPECT_TRUE(end.Takes(2));
  EXPECT_FALSE(end.Takes(1));
  EXPECT_FALSE(end.Takes(2)) << "none is made twice";
  EXPECT_TRUE(end.Takes(5));  // those between were made at other services
  EXPECT_FALSE(end.Takes(4));
}

TEST(ServiceEnd, IsAValueThatDescribesItself) {
  End end(kId);
  end.sender.Add("a");
  const End copy = end;
  EXPECT_EQ(copy, end);
  EXPECT_EQ(end.Describe(), "to the agent: 0 acknowledged, 1 kept, 0 of them written; from it: 0 received");
  end.Open(0, 0);
  EXPECT_FALSE(copy == end);
}

}  // namespace
}  // namespace mtrun::rendezvous
