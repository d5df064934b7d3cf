#include "launcher/cli/rdzv_conf.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status.h"

namespace mtrun::launcher {
namespace {

using testing::HasSubstr;

TEST(RdzvConfTest, HelpNamesTheEffectiveKeys) {
  EXPECT_EQ(
      ConfHelp(),
      "Settings of the rendezvous: join_timeout, last_call_timeout, cold_start_wait, keep_alive_interval, "
      "read_timeout, reconnect_grace, reconnect_timeout, min_nodes_timeout (seconds), "
      "keep_alive_max_attempt, fence_timeout (seconds, never), takeover (majority, any), is_host, "
      "hold_port, weak_token.");
}

TEST(RdzvConfTest, WordsAndBooleansSetTheirMembers) {
  Options options;
  EXPECT_TRUE(ReadConfPair("takeover", "any", false, &options).ok());
  EXPECT_TRUE(ReadConfPair("hold_port", "false", false, &options).ok());
  EXPECT_TRUE(ReadConfPair("is_host", "false", false, &options).ok());
  EXPECT_TRUE(ReadConfPair("fence_timeout", "0.5", false, &options).ok());
  EXPECT_TRUE(options.job.takeover_any);
  EXPECT_FALSE(options.hold_port);
  EXPECT_EQ(options.is_host, false);
  EXPECT_EQ(options.job.fence_timeout, std::chrono::milliseconds(500));
  EXPECT_TRUE(ReadConfPair("fence_timeout", "never", false, &options).ok());
  EXPECT_EQ(options.job.fence_timeout, Duration::zero());
  EXPECT_THAT(ReadConfPair("fence_timeout", "0", false, &options).message(),
              HasSubstr("seconds, more than 0, or never"));
  EXPECT_THAT(ReadConfPair("takeover", "all", false, &options).message(), HasSubstr("majority or any"));
  EXPECT_THAT(ReadConfPair("keep_alive_max_attempt", "0", false, &options).message(),
              HasSubstr("a number from 1"));
}

TEST(RdzvConfTest, ColdStartWaitTakesSeconds) {
  Options options;
  EXPECT_EQ(options.job.cold_start_wait, Duration::zero()) << "the last call";
  EXPECT_TRUE(ReadConfPair("cold_start_wait", "90", false, &options).ok());
  EXPECT_EQ(options.job.cold_start_wait, std::chrono::seconds(90));
  EXPECT_TRUE(ReadConfPair("cold_start_wait", "0", false, &options).ok());
  for (const char* const wrong : {"-1", "soon", ""}) {
    EXPECT_THAT(ReadConfPair("cold_start_wait", wrong, false, &options).message(),
                HasSubstr("it takes seconds, 0 or more"));
  }
}

TEST(RdzvConfTest, SecondsAreBounded) {
  Options options;
  EXPECT_TRUE(ReadConfPair("join_timeout", "1e8", false, &options).ok());
  EXPECT_EQ(options.job.join_timeout, std::chrono::seconds(100'000'000));
  for (const char* const wrong : {"1.1e8", "1e300", "inf", "nan", "-1e300"}) {
    EXPECT_THAT(ReadConfPair("join_timeout", wrong, false, &options),
                support::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("it takes seconds")))
        << wrong;
    EXPECT_EQ(options.job.join_timeout, std::chrono::seconds(100'000'000)) << wrong;
  }
}

TEST(RdzvConfTest, StaticBackendsTimeoutBoundsTheJoining) {
  Options options;
  const Duration before = options.job.join_timeout;
  EXPECT_TRUE(ReadConfPair("timeout", "5", false, &options).ok());
  EXPECT_EQ(options.job.join_timeout, before);
  EXPECT_TRUE(ReadConfPair("timeout", "5", true, &options).ok());
  EXPECT_EQ(options.job.join_timeout, std::chrono::seconds(5));
}

TEST(RdzvConfTest, EtcdKeysAreValidOnlyForEtcd) {
  Options options;
  EXPECT_TRUE(ReadConfPair("cacert", "x", false, &options).ok());
  EXPECT_THAT(options.notes, testing::ElementsAre(HasSubstr("unknown key \"cacert\"")));
  options.notes.clear();
  options.may_be_etcd = true;
  EXPECT_TRUE(ReadConfPair("cacert", "x", false, &options).ok());
  EXPECT_THAT(options.notes, testing::IsEmpty());
}

}  // namespace
}  // namespace mtrun::launcher
