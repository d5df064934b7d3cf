// Service and session client together, over loopback.
#include "rendezvous/session/session_client.h"

#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rendezvous/client/status_client.h"
#include "tests/rendezvous/session/session_fixture.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::HasSubstr;

TEST_F(SessionTest, TwoNodesJoinRunAndFinish) {
  StartService();
  TestAgent a("node1", Options(2, 2)), b("node2", Options(2, 2));
  a.Offer(2);
  b.Offer(3);
  const auto assigned = a.Next<Assigned>();
  ASSERT_TRUE(assigned.has_value());
  EXPECT_EQ(assigned->assignment().world_size, 5);
  EXPECT_EQ(assigned->assignment().members.at(1).first_rank, 2);
  EXPECT_EQ(assigned->assignment().master_port, 40000);
  const auto same = b.Next<Assigned>();
  ASSERT_TRUE(same.has_value());
  EXPECT_EQ(*same, *assigned);
  a.session().Send(WorkersFinished{assigned->assignment().generation, false});
  b.session().Send(WorkersFinished{assigned->assignment().generation, false});
  for (TestAgent* agent : {&a, &b}) {
    const auto ended = agent->Next<JobEnded>();
    ASSERT_TRUE(ended.has_value());
    EXPECT_TRUE(ended->outcome.success);
  }
}

TEST_F(SessionTest, DeadAgentIsReportedToTheOthers) {
  StartService();
  TestAgent a("node1", Options(1, 2)), b("node2", Options(1, 2));
  a.Offer();
  b.Offer();
  const Generation generation = a.NextGeneration();
  b.Kill();
  const auto dissolved = a.Next<GenerationDissolved>();
  ASSERT_TRUE(dissolved.has_value());
  EXPECT_EQ(dissolved->generation, generation);
  EXPECT_THAT(Describe(dissolved->cause), HasSubstr("node2 is lost"));
  a.Offer();
  EXPECT_EQ(a.NextGeneration().number, generation.number + 1);
}

TEST_F(SessionTest, FailureEndsTheJobOnEveryNodeWithItsRootCause) {
  StartService();
  TestAgent a("node1", Options(2, 2)), b("node2", Options(2, 2));
  a.Offer();
  b.Offer();
  const Generation generation = b.NextGeneration();
  WorkerFailure failure{"node2", 1, 0, 77, 0, 9, "/logs/stderr.log", "out of memory", "now"};
  b.session().Send(WorkerFailed{generation, failure});
  const auto ended = a.Next<JobEnded>();
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->outcome.exit_code, 137);
  EXPECT_EQ(ended->outcome.root_cause, failure);
}

TEST_F(SessionTest, RestartedServiceFindsEveryNodeInItsGeneration) {
  StartService();
  TestAgent a("node1", Options(2, 2)), b("node2", Options(2, 2));
  a.Offer();
  b.Offer();
  const Generation generation = a.NextGeneration();
  EXPECT_EQ(b.NextGeneration(), generation);
  a.session().Send(StoreSet{generation, "key", "value"});
  a.session().Send(WorkersFinished{generation, false});
  ASSERT_TRUE(a.session().Flush(kTestPatience));
  RestartService();
  ASSERT_TRUE(a.AwaitDisconnected());
  ASSERT_TRUE(a.AwaitConnections(2) && b.AwaitConnections(2));
  a.Offer(1, generation);
  b.Offer(1, generation);
  b.session().Send(StoreRead{generation, 1, {"key"}, true});
  const auto reply = b.Next<StoreReply>();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->error, "");
  EXPECT_EQ(reply->values.at("key"), "value");
  EXPECT_FALSE(a.Has<GenerationDissolved>());
  b.session().Send(WorkersFinished{generation, false});  // a's report outlived the service that got it
  const auto ended = b.Next<JobEnded>();
  ASSERT_TRUE(ended.has_value());
  EXPECT_TRUE(ended->outcome.success);
}

TEST_F(SessionTest, WaitIsAnsweredAfterTheServiceIsReplaced) {
  StartService();
  TestAgent a("node1", Options(2, 2)), b("node2", Options(2, 2));
  a.Offer();
  b.Offer();
  const Generation generation = a.NextGeneration();
  b.NextGeneration();
  b.session().Send(StoreRead{generation, 1, {"late"}, true});
  ASSERT_TRUE(b.session().Flush(kTestPatience));
  RestartService();
  ASSERT_TRUE(a.AwaitConnections(2) && b.AwaitConnections(2));
  a.Offer(1, generation);
  b.Offer(1, generation);
  a.session().Send(StoreSet{generation, "late", "here"});
  const auto reply = b.Next<StoreReply>();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->values.at("late"), "here");
}

TEST_F(SessionTest, StoreWaitsWorkAcrossNodesAndEndWithTheGeneration) {
  StartService();
  TestAgent a("node1", Options(2, 2, 1)), b("node2", Options(2, 2, 1));
  a.Offer();
  b.Offer();
  const Generation generation = a.NextGeneration();
  b.NextGeneration();
  b.session().Send(StoreRead{generation, 1, {"x", "y"}, true});
  const std::string big(KeyValueStore::kMaxValueBytes, '\xff');
  a.session().Send(StoreSet{generation, "x", big});
  a.session().Send(StoreSet{generation, "y", std::string("\0", 1)});
  auto reply = b.Next<StoreReply>();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->id, 1);
  EXPECT_EQ(reply->values["x"], big);
  b.session().Send(StoreRead{generation, 2, {"never"}, true});
  ASSERT_TRUE(b.session().Flush(kTestPatience));
  a.session().Send(WorkerFailed{generation, WorkerFailure{"node1", 0, 0, 1, 7, 0, "", "", ""}});
  reply = b.Next<StoreReply>();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->id, 2);
  EXPECT_THAT(reply->error, HasSubstr("generation 1 ended"));
}

TEST_F(SessionTest, JobThatDoesNotStartInTimeNamesMissingNodes) {
  StartService();
  SessionOptions options = Options(2, 2);
  options.job.join_timeout = std::chrono::seconds(2);
  TestAgent a("node1", options);
  a.Offer();
  const auto ended = a.Next<JobEnded>();
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->outcome.reason,
            "the job did not start within 2.0 s (join_timeout): 1 of 2 nodes is here; waiting for 1 more");
}

TEST_F(SessionTest, JobBelowItsMinimumEndsAfterTheTimeout) {
  StartService();
  SessionOptions options = Options(2, 2);
  options.job.min_nodes_timeout = std::chrono::seconds(1);
  TestAgent a("node1", options), b("node2", options);
  a.Offer();
  b.Offer();
  a.NextGeneration();
  b.Kill();
  ASSERT_TRUE(a.Next<GenerationDissolved>().has_value());
  a.Offer();
  const auto ended = a.Next<JobEnded>();
  ASSERT_TRUE(ended.has_value());
  EXPECT_THAT(ended->outcome.reason, HasSubstr("fewer than 2 nodes for 1.0 s (min_nodes_timeout)"));
}

/// An event waits for nothing: with the next heartbeat alone, the reads here would take an hour each.
TEST_F(SessionTest, EventIsSentBeforeTheNextHeartbeat) {
  StartService();
  SessionOptions options = Options(1, 1);
  options.job.heartbeat_interval = std::chrono::hours(1);
  options.job.fence_timeout = Duration::zero();
  TestAgent a("node1", options);
  a.Offer();
  const Generation generation = a.NextGeneration();
  a.session().Send(StoreSet{generation, "key", "value"});
  for (int64_t id = 1; id <= 100; ++id) {  // answers and acknowledgements may carry a few of them along
    a.session().Send(StoreRead{generation, id, {"key"}, true});
    const auto reply = a.Next<StoreReply>();
    ASSERT_TRUE(reply.has_value()) << id;
    EXPECT_EQ(reply->id, id);
  }
}

TEST_F(SessionTest, DifferentSettingsAreRefusedWithTheirNames) {
  StartService();
  TestAgent a("node1", Options(1, 2));
  ASSERT_TRUE(a.AwaitConnections(1));
  TestAgent b("node2", Options(1, 4));
  b.Offer();
  const auto refused = b.Next<Refused>();
  ASSERT_TRUE(refused.has_value());
  EXPECT_THAT(WhyRefused(*refused), HasSubstr("max_nodes is 4 here, 2 in the job"));
  const auto begin = std::chrono::steady_clock::now();
  b.session().Flush(kTestPatience);  // does not wait for an acknowledgement that can never come
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kTestPatience / 2);
}

TEST_F(SessionTest, JobsOnOneServiceAreIndependent) {
  StartService();
  SessionOptions other = Options(1, 1);
  other.job.job_id = "other";
  TestAgent a("node1", Options(1, 1)), b("node1", other);
  a.Offer();
  b.Offer();
  const Generation first = a.NextGeneration(), second = b.NextGeneration();
  EXPECT_NE(first.id, second.id);
  const auto status = ReadStatus(endpoint(), true, "", kTestPatience);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->jobs.size(), 2u);
  EXPECT_THAT(StatusTable(*status), HasSubstr("job other: running for "));
}

TEST_F(SessionTest, NoteOfAnAgentIsShownUntilItIsCleared) {
  StartService();
  TestAgent a("node1", Options(1, 1));
  a.Offer();
  a.NextGeneration();
  const auto status_says = [&](const auto& right) {
    const TimePoint end = MonotonicNow() + kTestPatience;
    std::string text;
    while (MonotonicNow() < end) {
      const auto status = ReadStatus(endpoint(), true, "", kTestPatience);
      text = status.ok() ? StatusTable(*status) : std::string(status.status().message());
      if (right(text)) return ::testing::AssertionSuccess();
    }
    return ::testing::AssertionFailure() << text;
  };
  a.session().SetNote("rank 0 has made no progress for 30 s");
  EXPECT_TRUE(status_says([](const std::string& text) {
    return text.find("  rank 0 has made no progress for 30 s (reported ") != std::string::npos;
  }));
  a.session().SetNote("");
  EXPECT_TRUE(
      status_says([](const std::string& text) { return text.find("no progress") == std::string::npos; }));
}

TEST_F(SessionTest, UnreachableServiceIsReportedAndThenGivenUp) {
  StartService();
  service_.reset();
  SessionOptions options = Options(1, 1);
  options.connect_report_interval = std::chrono::milliseconds(100);
  options.reconnect_timeout = std::chrono::seconds(2);
  TestAgent a("node1", options);
  EXPECT_TRUE(a.AwaitDisconnected());
  const auto failure = a.AwaitFailure();
  ASSERT_TRUE(failure.has_value());
  EXPECT_THAT(std::string(failure->message()),
              HasSubstr(absl::StrCat("cannot reach the rendezvous service at ", endpoint())));
}

TEST_F(SessionTest, AgentCanStartBeforeItsService) {
  StartService();
  service_.reset();
  TestAgent a("node1", Options(1, 1));
  a.Offer();
  StartService();
  EXPECT_EQ(a.NextGeneration().number, 1u);
}

TEST_F(SessionTest, EndIsReceivedAlthoughTheServiceStopsAtOnce) {
  StartService();
  TestAgent a("node1", Options(2, 2)), b("node2", Options(2, 2));
  a.Offer();
  b.Offer();
  const Generation generation = a.NextGeneration();
  b.NextGeneration();
  a.session().Send(WorkersFinished{generation, false});
  b.session().Send(WorkersFinished{generation, false});
  ASSERT_TRUE(a.Next<JobEnded>().has_value());
  service_.reset();  // as the hosting mtrun does
  EXPECT_TRUE(b.Next<JobEnded>().has_value());
}

TEST_F(SessionTest, NothingIsLostOrRepeatedOverManyServiceRestarts) {
  StartService();
  TestAgent a("node1", Options(1, 1));
  a.Offer();
  const Generation generation = a.NextGeneration();
  constexpr int kReads = 60;
  for (int i = 1; i <= kReads; ++i) {
    a.session().Send(StoreSet{generation, absl::StrCat("k", i), absl::StrCat(i)});
    a.session().Send(StoreRead{generation, i, {absl::StrCat("k", i)}, true});
    if (i % 20 != 0) continue;
    RestartService();
    ASSERT_TRUE(a.AwaitConnections(1 + i / 20));
    a.Offer(1, generation);
  }
  for (int i = 1; i <= kReads; ++i) {
    const auto reply = a.Next<StoreReply>();
    ASSERT_TRUE(reply.has_value()) << i;
    EXPECT_EQ(reply->id, i);
    EXPECT_EQ(reply->error, "");
  }
  EXPECT_FALSE(a.Has<StoreReply>());
}

TEST_F(SessionTest, ClientCanLeaveAtAnyTime) {
  StartService();
  for (int i = 0; i < 40; ++i) {
    TestAgent a(absl::StrCat("node", i), Options(1, 50));
    if (i % 2 == 0) a.Offer();
    if (i % 4 == 0) a.AwaitConnections(1);
    std::this_thread::sleep_for(std::chrono::microseconds(137 * i));
  }
}

}  // namespace
}  // namespace mtrun::rendezvous
