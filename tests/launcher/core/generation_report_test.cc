#include "launcher/core/generation_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class GenerationReportTest : public ::testing::Test {
 protected:
  /// Returns the reports since the last call.
  std::vector<std::string> Sent() {
    std::vector<std::string> sent;
    for (const Effect& effect : out_.Take())
      sent.push_back(rendezvous::Describe(std::get<SendToService>(effect).event));
    return sent;
  }

  EffectList out_;
  GenerationReport report_{{.number = 2, .id = 7}};
};

TEST_F(GenerationReportTest, FirstFailureCountsAndIsRepeated) {
  EXPECT_EQ(report_.Describe(), "no failure");
  rendezvous::WorkerFailure first;
  first.rank = 3;
  report_.Fail(first, &out_);
  const std::vector<std::string> sent = Sent();
  EXPECT_EQ(sent.size(), 1u);
  report_.Fail({}, &out_);
  EXPECT_THAT(Sent(), IsEmpty());
  EXPECT_EQ(report_.failure(), first);
  report_.Repeat(/*safe=*/false, &out_);
  EXPECT_EQ(Sent(), sent);
}

TEST_F(GenerationReportTest, BreakIsReportedOnceAndNotRepeated) {
  const WorkerSlot worker{.rank = 1};
  report_.Break(worker, "lost rank 0", &out_);
  const std::vector<Effect> sent = out_.Take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(
      sent.front(),
      Effect(SendToService{rendezvous::CollectivesBroken{{.number = 2, .id = 7}, 1, "lost rank 0", true}}));
  report_.Break(worker, "lost rank 0", &out_);
  report_.Repeat(/*safe=*/false, &out_);
  EXPECT_THAT(Sent(), IsEmpty());
  EXPECT_TRUE(report_.broken());
}

TEST_F(GenerationReportTest, FinishIsReportedOnceAndRepeatedWithTheSafetyOfThen) {
  report_.Repeat(/*safe=*/true, &out_);
  EXPECT_THAT(Sent(), IsEmpty()) << "nothing to repeat";
  const auto finished = [](bool safe) {
    return Effect(SendToService{rendezvous::WorkersFinished{{.number = 2, .id = 7}, safe}});
  };
  report_.Finish(/*safe=*/false, &out_);
  report_.Finish(/*safe=*/true, &out_);
  EXPECT_THAT(out_.Take(), ElementsAre(finished(false)));
  report_.Repeat(/*safe=*/true, &out_);
  EXPECT_THAT(out_.Take(), ElementsAre(finished(true)));
  EXPECT_EQ(report_.Describe(), "no failure, finished");
}

TEST_F(GenerationReportTest, StepsAreReportedFirstThenByTheHundredAndAfterARewind) {
  const auto reported = [this](int64_t step) {
    report_.Steps(step, &out_);
    return !out_.Take().empty();
  };
  EXPECT_TRUE(reported(10));
  EXPECT_FALSE(reported(10));
  EXPECT_FALSE(reported(109));
  EXPECT_TRUE(reported(110));
  EXPECT_TRUE(reported(50)) << "the run went back";
  EXPECT_FALSE(reported(149));
  EXPECT_EQ(report_.Describe(), "no failure, 50 steps");
}

}  // namespace
}  // namespace mtrun::launcher
