// A job of this node alone, without a service.
#include "rendezvous/session/local_session.h"

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/rendezvous/session/test_agent.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::HasSubstr;

SessionOptions Alone(int restarts) {
  SessionOptions options;
  options.job.job_id = "job";
  options.job.min_nodes = options.job.max_nodes = 1;
  options.job.max_restarts = restarts;
  // Shorter than the quiet time of the test: the node must not count as silent.
  options.job.heartbeat_interval = std::chrono::milliseconds(10);
  options.job.heartbeats_missed = 2;
  return options;
}

TEST(LocalSessionTest, FormsAtOnceAndFinishes) {
  TestAgent agent("alone", Alone(0), StartLocalSession);
  ASSERT_TRUE(agent.AwaitConnections(1));
  agent.Offer(4);
  const auto assigned = agent.Next<Assigned>();
  ASSERT_TRUE(assigned);
  EXPECT_EQ(assigned->assignment().world_size, 4);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  agent.session().Send(WorkersFinished{assigned->assignment().generation, false});
  const auto ended = agent.Next<JobEnded>();
  ASSERT_TRUE(ended);
  EXPECT_TRUE(ended->outcome.success) << ended->outcome.reason;
  EXPECT_TRUE(agent.session().Flush(kTestPatience));
}

TEST(LocalSessionTest, FailuresUseUpTheBudgetAndThenEndTheJob) {
  TestAgent agent("alone", Alone(1), StartLocalSession);
  agent.Offer();
  const Generation first = agent.NextGeneration();
  WorkerFailure failure;
  failure.host = "h";
  failure.pid = 7;
  failure.exit_code = 3;
  agent.session().Send(WorkerFailed{first, failure});
  ASSERT_TRUE(agent.Next<GenerationDissolved>());
  agent.Offer();
  const Generation second = agent.NextGeneration();
  EXPECT_EQ(second.number, first.number + 1);
  agent.session().Send(WorkerFailed{second, failure});
  const auto ended = agent.Next<JobEnded>();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->outcome.exit_code, 3);
  EXPECT_THAT(ended->outcome.reason, HasSubstr("budget"));
}

TEST(LocalSessionTest, AnswersStoreRequests) {
  TestAgent agent("alone", Alone(0), StartLocalSession);
  agent.Offer();
  const Generation generation = agent.NextGeneration();
  agent.session().Send(StoreRead{generation, 1, {"key"}, true});
  agent.session().Send(StoreSet{generation, "key", "value"});
  const auto reply = agent.Next<StoreReply>();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->id, 1);
}

TEST(LocalSessionTest, CanEndAtAnyTime) {
  for (int i = 0; i < 50; ++i) {
    TestAgent agent("alone", Alone(0), StartLocalSession);
    if (i % 2 == 0) agent.Offer();
  }
}

}  // namespace
}  // namespace mtrun::rendezvous
