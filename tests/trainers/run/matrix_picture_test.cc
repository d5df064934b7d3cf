#include "trainers/run/records/matrix_picture.h"

#include "gtest/gtest.h"

namespace mtrun::trainers {
namespace {

int RedAt(const datasets::RgbImage& image, int y, int x) {
  return image.pixels[3 * (static_cast<size_t>(y) * image.size.width + x)];
}

TEST(MatrixPictureTest, DarkerMeansALargerShareOfTheRow) {
  ConfusionMatrix matrix(2);
  matrix.Add(0, 0, 9);
  matrix.Add(0, 1, 1);
  const datasets::RgbImage image = DrawMatrix(matrix);
  ASSERT_EQ(image.size, (datasets::ImageSize{144, 144}));
  const int most = RedAt(image, 50, 50), least = RedAt(image, 50, 98), none = RedAt(image, 98, 50);
  EXPECT_LT(most, least);
  EXPECT_LT(least, none);
}

TEST(MatrixPictureTest, CountsAreWrittenIfThereIsSpace) {
  ConfusionMatrix few(2), empty(2);
  few.Add(0, 0, 0);
  few.Add(1, 1, 7);
  empty.Add(1, 1, 8);
  EXPECT_NE(DrawMatrix(few), DrawMatrix(empty));  // the same colours, another digit
}

TEST(MatrixPictureTest, ManyClassesGiveASmallPicture) {
  const datasets::RgbImage image = DrawMatrix(ConfusionMatrix(2000));
  EXPECT_EQ(image.size, (datasets::ImageSize{kMaxPicturedClasses + 1, kMaxPicturedClasses + 1}));
}

}  // namespace
}  // namespace mtrun::trainers
