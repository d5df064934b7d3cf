#include "page/history.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/page/states.h"

namespace mtrun::page {
namespace {

using testing::Optional;

constexpr TimePoint kHistoryNow{};

TEST(HistoryTest, RatesAreComputedBetweenTwoAnswers) {
  History history;
  history.OnState(AState(1, 1), kHistoryNow);
  EXPECT_EQ(history.BusyOf("job", "n0-1-abc"), std::nullopt);
  history.OnState(AState(1, 2), kHistoryNow);
  EXPECT_THAT(history.BusyOf("job", "n0-1-abc"), Optional(2.0));
  EXPECT_THAT(history.BusyOf("job", "n0-1-abc", 100), Optional(0.5));
  EXPECT_THAT(history.RateOf("job"), Optional(64.0));
  history.OnState(AState(1, 2), kHistoryNow);  // the same answer again adds nothing
  EXPECT_THAT(history.BusyOf("job", "n0-1-abc"), Optional(2.0));
}

TEST(HistoryTest, NewProcessStartsFromZero) {
  History history;
  history.OnState(AState(1, 1), kHistoryNow);
  auto state = AState(1, 2);
  state.nodes[0].use.workers[0].pid = 999;
  state.nodes[0].use.workers[0].samples = 3;  // the job started over
  history.OnState(state, kHistoryNow);
  EXPECT_EQ(history.BusyOf("job", "n0-1-abc", 999), std::nullopt);
  EXPECT_EQ(history.RateOf("job"), std::nullopt);
}

TEST(HistoryTest, LostNodeIsKeptForAWhileWithTheReason) {
  History history;
  history.OnState(AState(2, 1), kHistoryNow);
  auto state = AState(1, 2);
  const rendezvous::NodeLost dead{.how = rendezvous::NodeLost::How::kAgentGone};
  state.happenings.push_back({"job", 1, 0, "n1 is lost", rendezvous::Cause{"n1-1-abc", "n1", dead}});
  history.OnState(state, kHistoryNow);
  auto gone = history.GoneOf("job");
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone.begin()->second.cause, state.happenings[0].cause);
  EXPECT_FALSE(gone.begin()->second.left());
  history.OnState(state, kHistoryNow + History::kGoneShown);
  EXPECT_EQ(history.GoneOf("job").size(), 1u);
  history.OnState(state, kHistoryNow + History::kGoneShown + Duration(1));
  EXPECT_TRUE(history.GoneOf("job").empty());
}

/// Otherwise it could not be evicted with the button.
TEST(HistoryTest, AwaitedMemberIsKeptUntilTheJobContinues) {
  History history;
  history.OnState(AState(2, 1), kHistoryNow);
  auto state = AState(1, 2);
  state.status.jobs[0].phase = "forming";
  history.OnState(state, kHistoryNow);
  history.OnState(state, kHistoryNow + 100 * History::kGoneShown);
  EXPECT_EQ(history.GoneOf("job").size(), 1u);
  state.status.jobs[0].phase = "running";
  history.OnState(state, kHistoryNow + 100 * History::kGoneShown);
  EXPECT_TRUE(history.GoneOf("job").empty());
}

TEST(HistoryTest, ReturnedOrDepartedNodeIsNotLost) {
  History history;
  history.OnState(AState(2, 1), kHistoryNow);
  auto state = AState(1, 2);
  const rendezvous::NodeLeft signal{.why = rendezvous::NodeLeft::Why::kSignal, .signal = 15};
  state.happenings.push_back({"job", 1, 0, "n1 leaves", rendezvous::Cause{"n1-1-abc", "n1", signal}});
  history.OnState(state, kHistoryNow);
  EXPECT_TRUE(history.GoneOf("job").begin()->second.left());
  history.OnState(AState(2, 3), kHistoryNow);
  EXPECT_TRUE(history.GoneOf("job").empty());
}

TEST(HistoryTest, LostNodeIsReplacedByANewOneAtItsAddress) {
  History history;
  auto state = AState(2, 1);
  for (auto& node : state.status.jobs[0].nodes) node.address = "127.0.0.1";
  history.OnState(state, kHistoryNow);
  state.status.jobs[0].nodes.pop_back();
  history.OnState(state, kHistoryNow);
  EXPECT_EQ(history.GoneOf("job").size(), 1u);
  state.status.jobs[0].nodes.push_back(ANode("n7", 1));
  state.status.jobs[0].nodes.back().address = "127.0.0.1";
  history.OnState(state, kHistoryNow);
  EXPECT_TRUE(history.GoneOf("job").empty());
}

TEST(HistoryTest, NodesOfAJobThatEndedAreNotLost) {
  History history;
  history.OnState(AState(2, 1), kHistoryNow);
  auto state = AState(1, 2);
  state.status.jobs[0].phase = "ended";
  history.OnState(state, kHistoryNow);
  EXPECT_TRUE(history.GoneOf("job").empty());
}

/// The clock starts at the machine's boot.
TEST(HistoryTest, RateUsesTheClockOfASingleNode) {
  History history;
  const auto count = [&](const std::string& node, double measured, int64_t samples, int64_t asked) {
    auto state = AState(1, asked);
    state.nodes[0].node_id = node;
    state.nodes[0].use.measured = FromSeconds(measured);
    state.nodes[0].use.workers[0].samples = samples;
    history.OnState(state, kHistoryNow);
  };
  count("a", 98, 800, 1);
  count("a", 100, 1000, 2);
  EXPECT_THAT(history.RateOf("job"), Optional(100.0));
  count("b", 100.01, 1100, 3);
  EXPECT_EQ(history.RateOf("job"), std::nullopt) << "rank 0 is on another node now";
  count("b", 102.01, 1300, 4);
  EXPECT_THAT(history.RateOf("job"), Optional(100.0));
}

}  // namespace
}  // namespace mtrun::page
