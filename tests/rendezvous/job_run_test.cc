#include "rendezvous/wire/job_run.h"

#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

constexpr TimePoint kWindowEnds = TimePoint(std::chrono::seconds(3));

TEST(JobRun, ExcludesOtherRunsWhenProvenAfterTheWindow) {
  JobRun run(5, kWindowEnds);
  EXPECT_FALSE(run.Excludes(6, kWindowEnds)) << "nothing has run here yet";
  run.Prove(RunProof::kFormed);
  EXPECT_FALSE(run.Excludes(6, TimePoint())) << "who runs an earlier one may still come";
  EXPECT_TRUE(run.Excludes(6, kWindowEnds));
  EXPECT_FALSE(run.Excludes(5, kWindowEnds)) << "its own";
  EXPECT_FALSE(run.Excludes(0, kWindowEnds)) << "a node that was in none";
}

TEST(JobRun, AdoptsTheRunOfReturningNodes) {
  JobRun run(5, kWindowEnds);
  run.Prove(RunProof::kFormed);
  run.Become(6);
  EXPECT_EQ(run.incarnation(), 6u);
  EXPECT_FALSE(run.proven()) << "what was proven was another one";
  run.Prove(RunProof::kFormed);
  run.Prove(RunProof::kMembers);
  run.Become(6);
  EXPECT_EQ(run.Proof(kWindowEnds), RunProof::kFormed);
  EXPECT_EQ(run.Proof(TimePoint()), RunProof::kNone);
  EXPECT_TRUE(run.Excludes(5, kWindowEnds));
}

TEST(JobRun, IncarnationIsNeverZero) {
  EXPECT_EQ(JobRun(0, TimePoint()).incarnation(), 1u);
  JobRun run(5, TimePoint());
  run.Become(0);
  EXPECT_EQ(run.incarnation(), 1u);
}

}  // namespace
}  // namespace mtrun::rendezvous
