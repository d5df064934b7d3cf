#include "report/curve.h"

#include <cmath>

#include "gtest/gtest.h"

namespace mtrun::report {
namespace {

std::vector<StepPoint> Steps(int64_t count) {
  std::vector<StepPoint> steps;
  for (int64_t i = 0; i < count; ++i)
    steps.push_back(
        {.step = i, .loss = static_cast<double>(i), .learning_rate = 0.1, .seconds = 0.5, .samples = 4});
  return steps;
}

double Loss(const StepPoint& step) { return step.loss; }

TEST(Curve, FewPointsAreUnchanged) {
  EXPECT_EQ(Thin(Steps(2), Loss, 2), (std::vector<CurvePoint>{{0, 0, 0, 0}, {1, 1, 1, 1}}));
  EXPECT_TRUE(Thin({}, Loss).empty());
}

TEST(Curve, ManyPointsBecomeMeansWithARange) {
  EXPECT_EQ(Thin(Steps(5), Loss, 2), (std::vector<CurvePoint>{{2, 1, 0, 2}, {4, 3.5, 3, 4}}));
  EXPECT_LE(Thin(Steps(12'345), Loss).size(), kMaxPoints);
}

TEST(Curve, NonFiniteValuesAreOmitted) {
  auto steps = Steps(4);
  steps[0].loss = std::nan("");
  steps[2].loss = steps[3].loss = INFINITY;
  EXPECT_EQ(Thin(steps, Loss, 2), (std::vector<CurvePoint>{{1, 1, 1, 1}}));
}

TEST(Curve, ThroughputIsAveragedOverTime) {
  auto steps = Steps(2);
  steps[1].seconds = 1.5;
  EXPECT_EQ(Throughput(steps, 1), (std::vector<CurvePoint>{{1, 4, 4, 4}}));  // 8 images in 2 s
  steps[0].seconds = steps[1].seconds = std::nan("");
  EXPECT_TRUE(Throughput(steps, 1).empty());
}

}  // namespace
}  // namespace mtrun::report
