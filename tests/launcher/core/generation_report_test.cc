#include "launcher/core/generation_report.h"

#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

TEST(GenerationReportTest, TheFirstFailureAndTheFirstBreakCount) {
  GenerationReport report;
  EXPECT_EQ(report.Describe(), "no failure");
  rendezvous::WorkerFailure first;
  first.rank = 3;
  EXPECT_TRUE(report.AddFailure(first));
  EXPECT_FALSE(report.AddFailure({}));
  EXPECT_EQ(report.failure(), first);
  EXPECT_TRUE(report.AddBreak());
  EXPECT_FALSE(report.AddBreak());
  EXPECT_TRUE(report.broken());
}

TEST(GenerationReportTest, StepsAreReportedFirstThenByTheHundredAndAfterARewind) {
  GenerationReport report;
  EXPECT_TRUE(report.AddSteps(10));
  EXPECT_FALSE(report.AddSteps(10));
  EXPECT_FALSE(report.AddSteps(109));
  EXPECT_TRUE(report.AddSteps(110));
  EXPECT_TRUE(report.AddSteps(50)) << "the run went back";
  EXPECT_FALSE(report.AddSteps(149));
  EXPECT_EQ(report.Describe(), "no failure, 50 steps");
}

}  // namespace
}  // namespace mtrun::launcher
