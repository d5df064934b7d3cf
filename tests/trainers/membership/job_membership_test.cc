#include "trainers/membership/job_membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status_macros.h"
#include "tests/trainers/membership/by_hand.h"

namespace mtrun::trainers {
namespace {

using ::testing::HasSubstr;

/// Makes and joins a membership on the CPU, without encryption.
absl::StatusOr<std::unique_ptr<JobMembership>> JoinedMembership(const EnvironmentMap& environment) {
  MT_ASSIGN_OR_RETURN(std::unique_ptr<JobMembership> membership,
                      JobMembership::Make(environment, at::Device(at::kCPU), collectives::Protection::kTag));
  MT_RETURN_IF_ERROR(membership->Join(environment));
  return membership;
}

TEST(JobMembership, WorkerWithoutALauncherIsAlone) {
  const auto membership = JoinedMembership({});
  ASSERT_TRUE(membership.ok()) << membership.status();
  EXPECT_EQ((*membership)->assignment(), Assignment{});
  EXPECT_FALSE((*membership)->elastic());
  EXPECT_FALSE((*membership)->group());
  (*membership)->ReportProgress(1, 1, 1);
  EXPECT_TRUE((*membership)->ReportDone(1).ok());
}

TEST(JobMembership, MissingPortIsNamed) {
  EXPECT_THAT(std::string(JoinedMembership(With(kByHand, "MASTER_PORT", "0")).status().message()),
              HasSubstr("MASTER_PORT"));
}

TEST(JobMembership, MissingAgentIsNamed) {
  const auto membership = JoinedMembership(With(kByHand, "MTRUN_SOCKET", "/nonexistent/socket"));
  EXPECT_THAT(std::string(membership.status().message()), HasSubstr("/nonexistent/socket"));
}

TEST(JobMembership, DescriptorWithoutALeaseIsNamed) {
  EnvironmentMap environment = With(kByHand, "MTRUN_SOCKET", "/nonexistent/socket");
  environment["MTRUN_LEASE"] = "0";
  const auto membership = JoinedMembership(environment);
  EXPECT_EQ(membership.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(membership.status().message()), HasSubstr("MTRUN_LEASE: descriptor 0 is no"));
}

TEST(JobMembership, WorkerWithoutALeaseIsNeverHeld) {
  const auto membership = JoinedMembership({});
  ASSERT_TRUE(membership.ok()) << membership.status();
  EXPECT_FALSE((*membership)->lease_is_over());
}

}  // namespace
}  // namespace mtrun::trainers
