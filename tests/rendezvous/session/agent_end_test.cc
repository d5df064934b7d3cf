#include "rendezvous/session/agent_end.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rendezvous/session/service_end.h"

namespace mtrun::rendezvous {
namespace {

using Arrival = StreamReceiver::Arrival;

TEST(AgentEnd, ContinuesAResumedSession) {
  AgentEnd end;
  end.OnWelcome(7, false, 0);
  end.outbox.Add(Leaving{"a"});
  end.outbox.Add(Leaving{"b"});
  while (end.outbox.Next()) {
  }
  EXPECT_EQ(end.Take(1), Arrival::kNew);
  EXPECT_TRUE(end.CloseStream());
  end.OpenStream(Duration::zero());
  EXPECT_FALSE(end.welcomed());
  EXPECT_EQ(end.welcomed_by(), 7u);
  EXPECT_EQ(end.attempt(), 1u);
  end.OnWelcome(7, true, 1);
  EXPECT_EQ(end.outbox.Next()->sequence, 2u);
  EXPECT_EQ(end.Take(1), Arrival::kRepeated);
  EXPECT_EQ(end.Take(2), Arrival::kNew);
}

TEST(AgentEnd, StartsAtOneWithAServiceWithoutState) {
  AgentEnd end;
  end.OnWelcome(7, false, 0);
  end.outbox.Add(Leaving{"a"});
  end.outbox.Next();
  end.Take(1);
  end.CloseStream();
  EXPECT_FALSE(end.CloseStream());
  end.OnWelcome(8, false, 5);
  EXPECT_EQ(end.welcomed_by(), 8u);
  EXPECT_EQ(end.outbox.Next()->sequence, 1u);
  EXPECT_EQ(end.Take(1), Arrival::kNew);
}

TEST(AgentEnd, IsAValueThatDescribesItself) {
  AgentEnd end;
  const AgentEnd fresh = end;
  EXPECT_EQ(fresh, end);
  end.OnWelcome(7, false, 0);
  end.Take(1);
  EXPECT_FALSE(fresh == end);
  EXPECT_EQ(end.Describe(),
            "welcomed; to the service: 0 acknowledged, 0 kept, 0 of them written; 0 reports for a new "
            "service; seen "
            "generation 0, 0 restarts, 0 given back; from it: 1 received, acknowledgement due");
}

/// Both ends, with streams that break at any message, and Welcomes that may be lost.
TEST(SessionEnds, NothingIsLostOrRepeatedOverBrokenStreams) {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    std::mt19937_64 random(seed);
    AgentEnd agent;
    ServiceEnd<int64_t> service(42);
    constexpr int kEach = 12;
    int said = 0, told = 0;
    std::vector<std::string> heard_by_service;
    std::vector<int64_t> heard_by_agent;
    for (int stream = 0; stream < 200; ++stream) {
      agent.OpenStream(Duration::zero());
      const bool resumed = service.Open(agent.welcomed_by(), agent.receiver.Acknowledge());
      const uint64_t acknowledged = service.receiver.Acknowledge();
      const bool last = stream > 20;  // no more breaks after that
      if (!last && random() % 4 == 0) continue;
      agent.OnWelcome(service.id(), resumed, acknowledged);
      for (int step = 0; last || step < 1; ++step) {
        if (said < kEach && random() % 2 == 0) agent.outbox.Add(Leaving{std::to_string(++said)});
        if (told < kEach && random() % 2 == 0) service.sender.Add(++told);
        const auto up = agent.outbox.Next();
        const auto down = service.sender.Next();
        if (!last && random() % 3 == 0) break;  // both are written, neither arrives
        if (up && service.receiver.Take(up->sequence) == Arrival::kNew)
          heard_by_service.push_back(std::get<Leaving>(up->message->event).why.detail);
        if (down && agent.Take(down->sequence) == Arrival::kNew) heard_by_agent.push_back(*down->message);
        if (!last && random() % 3 == 0) break;  // both arrive, no acknowledgement does
        agent.outbox.Acknowledge(service.receiver.Acknowledge());
        service.sender.Acknowledge(agent.receiver.Acknowledge());
        if (last && said == kEach && told == kEach && agent.outbox.AllAcknowledged() &&
            service.sender.kept().empty())
          break;
        ASSERT_LT(step, 1000) << "seed " << seed << ": " << agent.Describe() << " | " << service.Describe();
      }
      if (last) break;
    }
    ASSERT_EQ(heard_by_service.size(), size_t{kEach}) << "seed " << seed;
    ASSERT_EQ(heard_by_agent.size(), size_t{kEach}) << "seed " << seed;
    for (int i = 0; i < kEach; ++i) {
      ASSERT_EQ(heard_by_service[static_cast<size_t>(i)], std::to_string(i + 1)) << "seed " << seed;
      ASSERT_EQ(heard_by_agent[static_cast<size_t>(i)], i + 1) << "seed " << seed;
    }
  }
}

TEST(AgentEnd, GenerationHasALeaseBeforeTheFirstHeartbeatAnswer) {
  AgentEnd end;
  end.OnWelcome(7, false, 0);
  end.TakeLease({std::chrono::seconds(5), {}});
  end.CloseStream();
  end.OpenStream(std::chrono::seconds(100));
  EXPECT_EQ(end.FirstLease(), std::chrono::seconds(5)) << "nobody has heard its Hello yet";
  end.OnWelcome(8, false, 0);
  EXPECT_EQ(end.FirstLease(), std::chrono::seconds(100));
}

TEST(AgentEnd, LeaseAppliesOnlyToTheRunningGeneration) {
  using std::chrono::seconds;
  AgentEnd end;
  EXPECT_EQ(end.FirstLease(), std::nullopt) << "nothing was heard yet";
  EXPECT_EQ(end.TakeLease({seconds(5), {}}), std::nullopt) << "nothing runs here";
  EXPECT_EQ(end.FirstLease(), seconds(5));
  Assignment assignment;
  assignment.generation = {1, 16};
  end.outbox.Observe(Assigned{assignment});
  EXPECT_EQ(end.TakeLease({seconds(6), {}}), std::nullopt)
      << "said before the service formed it, or by one that knows none";
  EXPECT_EQ(end.TakeLease({seconds(7), {1, 16}}), seconds(7));
  EXPECT_EQ(end.TakeLease({seconds(8), {2, 32}}), std::nullopt) << "it has gone on";
  end.outbox.Observe(GenerationDissolved{{1, 16}, {}, 0});
  EXPECT_EQ(end.TakeLease({seconds(9), {1, 16}}), std::nullopt);
  EXPECT_EQ(end.FirstLease(), seconds(9));
  assignment.generation = {2, 32};
  assignment.earlier = {{Generation{1, 16}, {}, {}, {}}};
  end.outbox.Observe(Membership{Assigned{assignment}});
  end.TakeLease({.sent = seconds(10)});
  EXPECT_EQ(end.outbox.Opening(JobSettings()).last, assignment);
  end.TakeLease({.sent = seconds(11), .settled = {2, 32}});
  assignment.earlier.clear();
  EXPECT_EQ(end.outbox.Opening(JobSettings()).last, assignment) << "nobody can follow an earlier one";
}

TEST(AgentEnd, WaitingNodeHasALeaseWhileNoOtherContinues) {
  using std::chrono::seconds;
  AgentEnd end;
  const Lease first{.sent = seconds(5), .authority = true, .newest = {1, 16}};
  EXPECT_EQ(end.OutsideLease({.sent = seconds(4), .authority = true}), std::nullopt) << "it was in none";
  EXPECT_EQ(end.OutsideLease(first), std::nullopt) << "others were in that one";
  Assignment assignment;
  assignment.generation = {1, 16};
  end.outbox.Observe(Assigned{assignment});
  EXPECT_EQ(end.OutsideLease(first), std::nullopt) << "it runs here";
  end.outbox.Observe(GenerationDissolved{{1, 16}, {}, 0});
  EXPECT_EQ(end.OutsideLease(first), seconds(5));
  EXPECT_EQ(end.TakeLease(first), std::nullopt) << "it renews no generation's";
  EXPECT_EQ(end.OutsideLease({.sent = seconds(6), .newest = {1, 16}}), std::nullopt) << "without authority";
  EXPECT_EQ(end.OutsideLease({.sent = seconds(6), .authority = true}), std::nullopt) << "an earlier release";
  EXPECT_EQ(end.OutsideLease({.sent = seconds(6), .authority = true, .newest = {2, 32}}), std::nullopt);
  assignment.generation = {2, 32};
  end.outbox.Observe(Membership{Assigned{assignment}});
  EXPECT_EQ(end.OutsideLease(first), std::nullopt) << "others have gone on, as another service knows";
}

TEST(AgentEnd, SilenceStartsAtTheLastAnswerOfTheServiceOfTheJob) {
  using std::chrono::seconds;
  AgentEnd end;
  EXPECT_GT(end.Silence(seconds(1)), seconds(1'000'000)) << "nobody has heard it";
  end.TakeLease({.sent = seconds(5), .authority = true});
  EXPECT_EQ(end.Silence(seconds(6)), seconds(1));
  end.TakeLease({.sent = seconds(9)});
  EXPECT_EQ(end.Silence(seconds(10)), seconds(5)) << "that one does not have the job";
  end.FirstLease();
  EXPECT_EQ(end.Silence(seconds(10)), seconds(1)) << "assigned by who had heard it then";
}

TEST(AgentEnd, SilenceStopsGrowingWhenTheHostIsDead) {
  using std::chrono::seconds;
  AgentEnd end;
  end.TakeLease({.sent = seconds(5), .authority = true});
  end.OnHostDead(seconds(6));
  end.OnHostDead(seconds(20));
  EXPECT_EQ(end.Silence(seconds(30)), seconds(1));
  end.TakeLease({.sent = seconds(31)});
  EXPECT_EQ(end.Silence(seconds(32)), seconds(1)) << "nobody has the job yet";
  end.TakeLease({.sent = seconds(33), .authority = true});
  EXPECT_EQ(end.Silence(seconds(40)), seconds(7)) << "another host has it now";
}

}  // namespace
}  // namespace mtrun::rendezvous
