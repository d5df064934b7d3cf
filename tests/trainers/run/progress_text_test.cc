#include "trainers/run/records/progress_text.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "base/terminal.h"

namespace mtrun::trainers {
namespace {

const ProgressState kState{.epoch = 2,
                           .epochs = 10,
                           .step = 1234,
                           .steps = 31250,
                           .loss = 1.23456,
                           .learning_rate = 0.001,
                           .images_per_second = 8612.4,
                           .seconds_left = 125,
                           .world = 3,
                           .memory = 412 << 20};

TEST(ProgressText, FullLineHasAllFigures) {
  EXPECT_EQ(ProgressText(kState),
            "epoch 2/10  step 1234/31250  3 %  loss 1.2346  lr 0.001  8612 images/s  3 workers  412 MiB  "
            "2 min 05 s left");
  EXPECT_EQ(ProgressText(kState, 160, false), ProgressText(kState));
}

TEST(ProgressText, EightyColumnsHaveAllFiguresAbbreviated) {
  EXPECT_EQ(ProgressText(kState, 80, false),
            "ep 2/10  1234/31250  3 %  loss 1.2346  lr 0.001  8612/s  3w  412M  2:05 left");
  EXPECT_EQ(ProgressText(kState, 68, false),
            "ep 2/10 1234/31250 3% loss 1.235 lr 0.001 8612/s 3w 412M 2:05 left");
}

TEST(ProgressText, LeastImportantFiguresAreDroppedFirst) {
  EXPECT_EQ(ProgressText(kState, 50, false), "ep 2/10 1234/31250 3% loss 1.235 8612/s 2:05 left");
  EXPECT_EQ(ProgressText(kState, 12, false), "1234/31250");
  EXPECT_EQ(ProgressText(kState, 4, false), "1234");
  EXPECT_EQ(ProgressText(kState, 0, false), "");
}

TEST(ProgressText, NeverExceedsItsColumns) {
  ProgressState wide = kState;
  wide.steps = wide.step = 123456789012;
  wide.loss = std::numeric_limits<double>::quiet_NaN();
  wide.images_per_second = std::numeric_limits<double>::infinity();
  wide.seconds_left = 1e300;
  wide.memory = int64_t{700} << 30;
  for (const ProgressState& state : {kState, wide}) {
    for (int columns = 0; columns < 200; ++columns) {
      EXPECT_LE(ColumnsOf(ProgressText(state, columns, true)), static_cast<size_t>(columns));
      EXPECT_EQ(WithoutEscapes(ProgressText(state, columns, true)), ProgressText(state, columns, false));
    }
  }
}

TEST(ProgressText, LastStepHasNoTimeLeft) {
  EXPECT_EQ(ProgressText(ProgressState{.step = 5, .steps = 5}).find("left"), std::string::npos);
}

TEST(SmoothedLoss, IsADecayingMean) {
  SmoothedLoss loss;
  EXPECT_DOUBLE_EQ(loss.Add(2), 2) << "one step is its own mean";
  EXPECT_NEAR(loss.Add(1), (2 * SmoothedLoss::kKeep + 1) / (1 + SmoothedLoss::kKeep), 1e-12);
  EXPECT_TRUE(std::isnan(loss.Add(NAN)));
  for (int i = 0; i < 1000; ++i) loss.Add(5);
  EXPECT_NEAR(loss.Add(5), 5, 1e-6) << "what is not finite is forgotten";
}

}  // namespace
}  // namespace mtrun::trainers
