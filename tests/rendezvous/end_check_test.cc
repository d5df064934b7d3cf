#include "rendezvous/job/end_check.h"

#include <gtest/gtest.h>

namespace mtrun::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const TimePoint kAllDone{seconds(100)};

JobSettings HeartbeatSettings() {
  JobSettings settings;
  settings.heartbeat_interval = milliseconds(500);
  settings.heartbeats_missed = 3;
  return settings;
}

PeerService PeerThat(PeerService::State state, uint64_t generation = 0, bool authority = false) {
  PeerService peer;
  peer.endpoint = "there:1";
  peer.state = state;
  peer.generation = {generation, 7};
  peer.authority = authority;
  return peer;
}

using State = PeerService::State;

TEST(EndCheck, EndsAtOnceIfAllMembersAreHere) {
  EndCheck check(HeartbeatSettings());
  EXPECT_TRUE(check.MayEnd(/*all_here=*/true, kAllDone));
  EXPECT_FALSE(check.waits());
}

TEST(EndCheck, WaitsForAnswersThatAreNewerThanTheLastFinish) {
  EndCheck check(HeartbeatSettings());
  EXPECT_FALSE(check.MayEnd(false, kAllDone));
  EXPECT_EQ(check.due(), kAllDone + milliseconds(1500));
  EXPECT_EQ(check.OnProbed({PeerThat(State::kWithoutJob)}, {4, 7}, kAllDone - milliseconds(1)), nullptr);
  EXPECT_FALSE(check.MayEnd(false, kAllDone + milliseconds(100))) << "they may have gone there since";
  EXPECT_EQ(check.OnProbed({PeerThat(State::kSilent)}, {4, 7}, kAllDone), nullptr);
  EXPECT_FALSE(check.MayEnd(false, kAllDone + milliseconds(200)));
  EXPECT_EQ(check.OnProbed({PeerThat(State::kWithoutJob), PeerThat(State::kGone)}, {4, 7}, kAllDone),
            nullptr);
  EXPECT_TRUE(check.MayEnd(false, kAllDone + milliseconds(300)));
}

TEST(EndCheck, FindsTheServiceToWhichTheMembersHaveGone) {
  EndCheck check(HeartbeatSettings());
  EXPECT_FALSE(check.MayEnd(false, kAllDone));
  EXPECT_EQ(check.OnProbed({PeerThat(State::kWithJob, 4, false)}, {4, 7}, kAllDone - seconds(1)), nullptr);
  EXPECT_EQ(check.OnProbed({PeerThat(State::kWithJob, 3, true)}, {4, 7}, kAllDone - seconds(1)), nullptr);
  for (const uint64_t generation : {4, 5})
    EXPECT_NE(check.OnProbed({PeerThat(State::kWithJob, generation, true)}, {4, 7}, kAllDone), nullptr);
}

TEST(EndCheck, EndsWithoutAnswersAfterTheSilenceOfALostMember) {
  EndCheck check(HeartbeatSettings());
  EXPECT_FALSE(check.MayEnd(false, kAllDone));
  EXPECT_FALSE(check.MayEnd(false, kAllDone + milliseconds(1499)));
  EXPECT_TRUE(check.MayEnd(false, kAllDone + milliseconds(1500)));
  check.Clear();
  EXPECT_FALSE(check.MayEnd(false, kAllDone + milliseconds(1600))) << "another generation";
}

TEST(EndCheck, AsksNobodyBeforeAllHaveFinished) {
  EndCheck check(HeartbeatSettings());
  EXPECT_EQ(check.OnProbed({PeerThat(State::kWithJob, 5, true)}, {4, 7}, kAllDone), nullptr);
  EXPECT_FALSE(check.due().has_value());
}

}  // namespace
}  // namespace mtrun::rendezvous
