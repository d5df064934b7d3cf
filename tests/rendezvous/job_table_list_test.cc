// A job that moves from one service of a list to another.
#include "gtest/gtest.h"
#include "rendezvous/job/job_table.h"
#include "tests/rendezvous/job_values.h"

namespace mtrun::rendezvous {
namespace {

using State = PeerService::State;

class JobTableListTest : public ::testing::Test {
 protected:
  void Come(const std::string& node) {
    StreamOpened opened;
    opened.settings.job_id = "a";
    opened.settings.endpoints = {"service1", "service2"};
    table_.Step("a", Event{node, opened}, now_);
    table_.Step("a", Event{node, AgentSaid{OfferSent{MakeOffer(node)}, {}}}, now_);
  }
  /// Returns the first generation that is formed then, none if the service waits.
  std::optional<Assignment> Look(State other, uint64_t number = 0) {
    ProbeResult looked;
    looked.peers.resize(2);
    looked.peers[0].endpoint = "service1", looked.peers[0].state = State::kSelf;
    looked.peers[1].endpoint = "service2", looked.peers[1].state = other;
    looked.peers[1].generation = {number, number};
    for (const auto& [job_id, effect] : table_.Step("a", Event{"", looked}, now_)) {
      const auto* send = std::get_if<Send>(&effect);
      if (send == nullptr) continue;
      if (const auto* assigned = std::get_if<Assigned>(&send->event)) return assigned->assignment();
    }
    return std::nullopt;
  }

  TimePoint now_ = TimePoint() + std::chrono::minutes(1);
  JobTable table_{{3, TimePoint(), std::chrono::seconds(3)}};  // up for a minute
};

/// Simulation, seed 110188577: the service that had the job was killed and restarted while its node was on
/// its way to a third one.
TEST_F(JobTableListTest, FormationWaitsForReturningNodesOfAMovedJob) {
  Come("node1");
  EXPECT_FALSE(Look(State::kWithJob, 5).has_value());
  ASSERT_TRUE(table_.jobs().empty()) << "it is at the other one";
  now_ += std::chrono::seconds(10);
  Come("node2");
  EXPECT_FALSE(Look(State::kWithoutJob).has_value()) << "it had the job";
  now_ += std::chrono::milliseconds(2900);
  EXPECT_FALSE(Look(State::kWithoutJob).has_value());
  now_ += std::chrono::milliseconds(200);
  const auto formed = Look(State::kWithoutJob);
  ASSERT_TRUE(formed.has_value());
  EXPECT_EQ(formed->generation.number, 6u);
}

TEST_F(JobTableListTest, FirstJobOfAServiceStartsAtOnce) {
  Come("node1");
  const auto formed = Look(State::kWithoutJob);
  ASSERT_TRUE(formed.has_value());
  EXPECT_EQ(formed->generation.number, 1u);
}

}  // namespace
}  // namespace mtrun::rendezvous
