#include "rendezvous/job/restart_budget.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

WorkerFailure Failure(int exit_code = 1, bool early = false) {
  WorkerFailure failure;
  failure.pid = 100;
  failure.exit_code = exit_code;
  failure.early = early;
  return failure;
}

/// Returns how many restarts were allowed before one was not.
int RestartsAllowed(RestartBudget& budget, const WorkerFailure& failure) {
  for (int i = 0; i < 100; ++i) {
    if (!budget.Note(failure).empty()) return i;
    budget.Spend();
  }
  return 100;
}

TEST(RestartBudget, AllowsMaxRestarts) {
  RestartBudget budget(2, 0);
  EXPECT_EQ(RestartsAllowed(budget, Failure()), 2);
  EXPECT_EQ(budget.Note(Failure()), "the budget of 2 restarts is used up");
  EXPECT_EQ(budget.UsedText(), "restart 2 of 2");
  EXPECT_EQ(RestartText(14, 4, 10), "restart 14 (10 of 10 used)");
  EXPECT_TRUE(budget.Valid());
  EXPECT_EQ(RestartBudget(0, 0).Note(Failure()), "no restarts are allowed (max_restarts 0)");
}

TEST(RestartBudget, UnstartableProgramIsNotRetried) {
  for (const int status : {kNoSuchProgramStatus, kNotExecutableStatus}) {
    WorkerFailure failure = Failure(status);
    EXPECT_EQ(RestartBudget(5, 0).Note(failure), "");  // a shell uses it for something else
    failure.pid = 0;
    EXPECT_THAT(RestartBudget(5, 0).Note(failure), HasSubstr("cannot be started"));
  }
}

TEST(RestartBudget, StartFailureForLackOfResourcesIsRetried) {
  WorkerFailure failure = Failure();
  failure.pid = 0;
  EXPECT_EQ(RestartBudget(5, 0).Note(failure), "");
  EXPECT_EQ(RestartBudget(5, 10).WhyHopeless(failure), "");
}

TEST(RestartBudget, OnlyTrainersReportWrongSettings) {
  const WorkerFailure failure = Failure(kWrongSettingsStatus);
  EXPECT_THAT(RestartBudget(5, 10).WhyHopeless(failure), HasSubstr("wrong settings"));
  EXPECT_EQ(RestartBudget(5, 0).WhyHopeless(failure), "");
  WorkerFailure killed = failure;
  killed.signal = 9;
  EXPECT_EQ(RestartBudget(5, 10).WhyHopeless(killed), "");
}

TEST(RestartBudget, OnlyTrainersReportDifferentStates) {
  const WorkerFailure failure = Failure(kDifferentStatesStatus);
  EXPECT_THAT(RestartBudget(5, 10).WhyHopeless(failure), HasSubstr("different states"));
  EXPECT_TRUE(RestartBudget(5, 10).ConcernsAll(failure));
  EXPECT_FALSE(RestartBudget(5, 10).ConcernsAll(Failure(kWrongSettingsStatus)));
  EXPECT_EQ(RestartBudget(5, 0).WhyHopeless(failure), "");
  EXPECT_FALSE(RestartBudget(5, 0).ConcernsAll(failure));
  WorkerFailure killed = failure;
  killed.signal = 9;
  EXPECT_EQ(RestartBudget(5, 10).WhyHopeless(killed), "");
}

TEST(RestartBudget, ThreeEarlyFailuresInARowAreACrashLoop) {
  RestartBudget trainer(10, 10), program(10, 0);
  EXPECT_EQ(RestartsAllowed(trainer, Failure(1, true)), RestartBudget::kMaxEarlyFailures - 1);
  EXPECT_EQ(RestartsAllowed(program, Failure(1, true)), 10);
}

TEST(RestartBudget, StepsOrALaterFailureResetTheCount) {
  RestartBudget budget(10, 100);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(budget.Note(Failure(1, true)), "");
  budget.OnSteps(1);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(budget.Note(Failure(1, true)), "");
  EXPECT_EQ(budget.Note(Failure()), "");
  EXPECT_EQ(budget.Note(Failure(1, true)), "");
}

TEST(RestartBudget, StepsRefundRestarts) {
  RestartBudget budget(3, 10);
  for (int i = 0; i < 3; ++i) budget.Spend();
  EXPECT_THAT(budget.OnSteps(5), IsEmpty());  // the mark
  EXPECT_THAT(budget.OnSteps(14), IsEmpty());
  EXPECT_THAT(budget.OnSteps(15), ElementsAre("10 steps without a failure: 2 of 3 restarts are used now"));
  EXPECT_EQ(budget.used(), 2);
  EXPECT_EQ(budget.count(), 3);
  EXPECT_EQ(budget.refunded(), 1);
  EXPECT_EQ(budget.OnSteps(1000).size(), 2u);  // not more than were used
  EXPECT_EQ(budget.used(), 0);
  EXPECT_TRUE(budget.Valid());
}

TEST(RestartBudget, RepeatedStepsRefundNothing) {
  RestartBudget budget(3, 10);
  budget.Spend();
  budget.OnSteps(100);
  EXPECT_THAT(budget.OnSteps(50), IsEmpty());  // back to a checkpoint
  EXPECT_THAT(budget.OnSteps(109), IsEmpty());
  EXPECT_EQ(budget.OnSteps(110).size(), 1u);
}

TEST(RestartBudget, OtherProgramsGetNoRefund) {
  RestartBudget budget(3, 0);
  budget.Spend();
  EXPECT_THAT(budget.OnSteps(1'000'000), IsEmpty());
  EXPECT_EQ(budget.used(), 1);
}

TEST(RestartBudget, AdoptsHigherCountsFromAgents) {
  RestartBudget budget(3, 10);
  budget.Raise(5, 4);
  EXPECT_EQ(budget.count(), 5);
  EXPECT_EQ(budget.used(), 1);
  budget.Raise(2, 0);
  EXPECT_EQ(budget.count(), 5);
  EXPECT_EQ(budget.refunded(), 4);
  budget.Raise(9, 0);  // more failures than the budget: the rest must have been given back
  EXPECT_EQ(budget.used(), 3);
  EXPECT_TRUE(budget.Valid());
  RestartBudget fixed(3, 0);
  fixed.Raise(9, 4);
  EXPECT_EQ(fixed.count(), 3);
  EXPECT_EQ(fixed.refunded(), 0);
}

TEST(RestartBudget, IsAValue) {
  RestartBudget a(3, 10), b(3, 10);
  EXPECT_EQ(a, b);
  b.Note(Failure(1, true));
  EXPECT_FALSE(a == b);
  EXPECT_EQ(b.Describe(), "restarts 0, early failures 1");
}

}  // namespace
}  // namespace mtrun::rendezvous
