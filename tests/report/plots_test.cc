#include "report/plots.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/program.h"

namespace mtrun::report {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::Pointwise;
using ::testing::StartsWith;

RunRecord Trained() {
  RunRecord run;
  run.epochs = {{.epoch = 1,
                 .steps = 4,
                 .train_loss = 2,
                 .test_loss = 1.5,
                 .train_accuracy = 0.5,
                 .test_accuracy = 0.25},
                {.epoch = 2,
                 .steps = 8,
                 .train_loss = 1,
                 .test_loss = NAN,
                 .train_accuracy = 0.75,
                 .test_accuracy = 0.5}};
  return run;
}

TEST(Plots, TicksAreRoundAndEncloseTheRange) {
  EXPECT_THAT(Ticks(0, 10, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(Ticks(0.21, 0.49, 3), Pointwise(DoubleEq(), {0.2, 0.3, 0.4, 0.5}));
  EXPECT_LT(Ticks(3, 3, 5).front(), 3);
  EXPECT_GT(Ticks(3, 3, 5).back(), 3);
}

TEST(Plots, ShowTheValuesOfEachEpoch) {
  const auto accuracy = AccuracyPlot(Trained());
  ASSERT_EQ(accuracy.size(), 1u);
  EXPECT_EQ(accuracy[0].lines[1].points, (std::vector<std::pair<double, double>>{{1, 25}, {2, 50}}));
  const auto metrics = MetricsPlot(Trained());
  ASSERT_EQ(metrics.size(), 2u);
  EXPECT_EQ(metrics[0].lines[1].points.size(), 1u);  // non-finite values are omitted
  EXPECT_TRUE(AccuracyPlot({}).empty());
}

TEST(Plots, AreWrittenToFiles) {
  const support::TemporaryFolder folder;
  for (const auto& panels : {AccuracyPlot(Trained()), MetricsPlot(Trained())}) {
    const absl::Status written = WritePlot(panels, folder.File("plot.png"));
    if (absl::IsUnimplemented(written)) GTEST_SKIP() << "built without Cairo";
    ASSERT_TRUE(written.ok()) << written;
    EXPECT_THAT(support::ReadText(folder.File("plot.png")), StartsWith("\x89PNG"));
  }
  EXPECT_FALSE(WritePlot(AccuracyPlot(Trained()), folder.File("none/plot.png")).ok());
}

}  // namespace
}  // namespace mtrun::report
