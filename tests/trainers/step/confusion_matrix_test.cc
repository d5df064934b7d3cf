#include "trainers/step/confusion_matrix.h"

#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

TEST(ConfusionMatrix, CountsAndFigures) {
  ConfusionMatrix matrix(2);
  matrix.Add(0, 0, 3);
  matrix.Add(0, 1);
  matrix.Add(1, 0, 2);
  matrix.Add(1, 1, 4);
  EXPECT_EQ(matrix.total(), 10);
  EXPECT_EQ(matrix.correct(), 7);
  EXPECT_EQ(matrix.Accuracy(), 0.7);
  const ClassFigures first = matrix.Figures(0);
  EXPECT_EQ(first.accuracy, 0.7);
  EXPECT_EQ(first.precision, 3.0 / 5);
  EXPECT_EQ(first.recall, 3.0 / 4);
  EXPECT_DOUBLE_EQ(first.f1, 2 * 0.6 * 0.75 / (0.6 + 0.75));
  EXPECT_EQ(first.specificity, 4.0 / 6);
}

TEST(ConfusionMatrix, NeverDividesByZero) {
  EXPECT_EQ(ConfusionMatrix(3).Accuracy(), 0);
  ConfusionMatrix matrix(3);
  matrix.Add(0, 0);
  EXPECT_EQ(matrix.samples(0), 1);
  EXPECT_EQ(matrix.samples(2), 0);
  const ClassFigures never_seen = matrix.Figures(2);
  EXPECT_EQ(never_seen.precision, 0);
  EXPECT_EQ(never_seen.recall, 0);
  EXPECT_EQ(never_seen.f1, 0);
  EXPECT_EQ(never_seen.specificity, 1);
}

TEST(ConfusionMatrix, NamesTheWorstClassesAndMostFrequentConfusions) {
  ConfusionMatrix matrix(5);  // class 4 has no samples
  matrix.Add(0, 0, 8);
  matrix.Add(0, 1, 2);
  matrix.Add(1, 1, 4);
  matrix.Add(1, 2, 6);
  matrix.Add(2, 2, 10);
  matrix.Add(3, 1, 2);
  matrix.Add(3, 3, 8);
  EXPECT_EQ(matrix.WorstClasses(), (std::vector<int>{1, 2, 0, 3}));
  EXPECT_EQ(matrix.WorstClasses(2), (std::vector<int>{1, 2}));
  using Confusion = ConfusionMatrix::Confusion;
  EXPECT_EQ(matrix.Confusions(), (std::vector<Confusion>{{1, 2, 6}, {0, 1, 2}, {3, 1, 2}}));
  EXPECT_EQ(matrix.Confusions(1), (std::vector<Confusion>{{1, 2, 6}}));
  EXPECT_TRUE(ConfusionMatrix(3).WorstClasses().empty());
  EXPECT_TRUE(ConfusionMatrix(0).Confusions().empty());
}

TEST(ConfusionMatrix, IsRestoredFromItsCounts) {
  ConfusionMatrix matrix(3);
  matrix.Add(2, 1, 5);
  EXPECT_EQ(ConfusionMatrix(matrix.counts()).at(2, 1), 5);
}

TEST(ConfusionMatrixDeathTest, UnknownClassAborts) {
  ConfusionMatrix matrix(3);
  EXPECT_DEATH(matrix.Add(3, 0), "actual 3");
}

}  // namespace
}  // namespace mtrun::trainers
