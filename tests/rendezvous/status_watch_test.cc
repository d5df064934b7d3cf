#include "rendezvous/client/status_watch.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TimePoint AtMs(int milliseconds) { return TimePoint(std::chrono::milliseconds(milliseconds)); }

ServiceStatus StatusOf(const std::string& phase, int age = 1) {
  ServiceStatus status;
  status.uptime = std::chrono::seconds(age);
  JobView job;
  job.settings.job_id = "train";
  job.phase = phase;
  job.phase_age = std::chrono::seconds(age);
  NodeView node;
  node.node_id = node.host = "node1";
  node.silent_for = status.uptime;
  job.nodes.push_back(node);
  status.jobs.push_back(job);
  return status;
}

TEST(StatusWatchTest, ChangedAgesAlonePrintNothing) {
  StatusWatch watch(/*json=*/false, /*rows=*/0);
  EXPECT_THAT(watch.OnAnswer(StatusOf("forming"), AtMs(0)), StartsWith("service up"));
  EXPECT_EQ(watch.OnAnswer(StatusOf("forming", 2), AtMs(500)), "");
  EXPECT_THAT(watch.OnAnswer(StatusOf("running", 3), AtMs(1000)), HasSubstr("job train: running"));
  EXPECT_FALSE(watch.over());
}

TEST(StatusWatchTest, TerminalUpdatesAgesInPlace) {
  StatusWatch watch(/*json=*/false, /*rows=*/24);
  EXPECT_THAT(watch.OnAnswer(StatusOf("running"), AtMs(0)), StartsWith("\033[2J\033[Hservice up"));
  EXPECT_THAT(watch.OnAnswer(StatusOf("running", 2), AtMs(500)), StartsWith("\033[Hservice up for 2"));
  EXPECT_EQ(Redrawn("a\nb\nc\n", 2, false), "\033[Ha\033[K\nb\033[K\033[J");
}

TEST(StatusWatchTest, JsonOutputIsOneObjectPerLine) {
  StatusWatch watch(/*json=*/true, /*rows=*/24);
  const std::string line = watch.OnAnswer(StatusOf("running"), AtMs(0));
  EXPECT_THAT(line, StartsWith("{\"elsewhere\":[],\"jobs\":[{"));
  EXPECT_EQ(line.find('\n'), line.size() - 1);
}

/// Returns the status of a service that has been up for `up` and has no job.
ServiceStatus NoJob(int up) {
  ServiceStatus status;
  status.uptime = std::chrono::seconds(up);
  return status;
}

TEST(StatusWatchTest, EndOfTheJobEndsTheWatch) {
  StatusWatch ended(false, 0), gone(false, 0), empty(false, 0);
  ended.OnAnswer(StatusOf("running"), AtMs(0));
  EXPECT_THAT(ended.OnAnswer(StatusOf("ended"), AtMs(500)), HasSubstr("ended"));
  EXPECT_TRUE(ended.over());
  gone.OnAnswer(StatusOf("running"), AtMs(0));
  EXPECT_THAT(gone.OnAnswer(NoJob(20), AtMs(500)), HasSubstr("no job")) << "a service that outlives its jobs";
  EXPECT_TRUE(gone.over());
  empty.OnAnswer(NoJob(20), AtMs(0));
  EXPECT_FALSE(empty.over()) << "the job is still to come";
}

TEST(StatusWatchTest, WatchContinuesAtAFreshServiceWithoutTheJob) {
  StatusWatch watch(false, 0);
  watch.OnAnswer(StatusOf("running"), AtMs(0));
  watch.OnAnswer(NoJob(1), AtMs(2000));
  EXPECT_FALSE(watch.over());
  watch.OnAnswer(StatusOf("running"), AtMs(3000));
  EXPECT_FALSE(watch.over());
  ServiceStatus told = NoJob(4);
  told.ended["train"] = {{7, 1, true}};
  watch.OnAnswer(told, AtMs(5000));
  EXPECT_TRUE(watch.over()) << "it knows how the job ended";
}

TEST(StatusWatchTest, SilenceDoesNotEndTheWatchAtOnce) {
  StatusWatch watch(false, 0);
  const absl::Status away = absl::UnavailableError("nobody");
  EXPECT_EQ(watch.OnSilence(away, AtMs(0)), away) << "it has never answered";
  watch.OnAnswer(StatusOf("running"), AtMs(0));
  EXPECT_TRUE(watch.OnSilence(away, AtMs(9900)).ok()) << "a service may be away for a moment";
  watch.OnAnswer(StatusOf("running"), AtMs(10000));
  EXPECT_TRUE(watch.OnSilence(away, AtMs(19900)).ok());
  const absl::Status lost = watch.OnSilence(away, AtMs(20000));
  EXPECT_TRUE(absl::IsUnavailable(lost));
  EXPECT_THAT(
      std::string(lost.message()),
      HasSubstr("10.0 s, and the job was not seen to end; it may continue where another node hosts it"));
}

}  // namespace
}  // namespace mtrun::rendezvous
