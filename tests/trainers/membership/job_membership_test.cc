#include "trainers/membership/job_membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainers/membership/by_hand.h"

namespace mtrun::trainers {
namespace {

using ::testing::HasSubstr;

TEST(JobMembership, WorkerWithoutALauncherIsAlone) {
  const auto membership = JobMembership::Joined({});
  ASSERT_TRUE(membership.ok()) << membership.status();
  EXPECT_EQ((*membership)->assignment(), Assignment{});
  EXPECT_FALSE((*membership)->elastic());
  EXPECT_FALSE((*membership)->group());
  (*membership)->ReportProgress(1, 1, 1);
  EXPECT_TRUE((*membership)->ReportDone(1).ok());
}

TEST(JobMembership, MissingPortIsNamed) {
  EXPECT_THAT(std::string(JobMembership::Joined(With(kByHand, "MASTER_PORT", "0")).status().message()),
              HasSubstr("MASTER_PORT"));
}

TEST(JobMembership, MissingAgentIsNamed) {
  const auto membership = JobMembership::Joined(With(kByHand, "MTRUN_SOCKET", "/nonexistent/socket"));
  EXPECT_THAT(std::string(membership.status().message()), HasSubstr("/nonexistent/socket"));
}

TEST(JobMembership, DescriptorWithoutALeaseIsNamed) {
  EnvironmentMap environment = With(kByHand, "MTRUN_SOCKET", "/nonexistent/socket");
  environment["MTRUN_LEASE"] = "0";
  const auto membership = JobMembership::Joined(environment);
  EXPECT_EQ(membership.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(membership.status().message()), HasSubstr("MTRUN_LEASE: descriptor 0 is no"));
}

TEST(JobMembership, WorkerWithoutALeaseIsNeverHeld) {
  const auto membership = JobMembership::Joined({});
  ASSERT_TRUE(membership.ok()) << membership.status();
  EXPECT_FALSE((*membership)->lease_is_over());
}

}  // namespace
}  // namespace mtrun::trainers
