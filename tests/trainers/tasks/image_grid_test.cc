#include "trainers/tasks/image_grid.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "base/posix.h"

namespace mtrun::trainers {
namespace {

TEST(image_grid, ImagesFormRowsSeparatedByLines) {
  at::Tensor images = at::full({3, 3, 2, 4}, -1.0f);
  images[1].fill_(1);
  images[2].select(0, 1).fill_(5);  // green, above the white level
  const at::Tensor grid = ImageGrid(images, 2, 1);
  EXPECT_EQ(grid.sizes(), at::IntArrayRef({7, 11, 3}));
  EXPECT_EQ(grid.to(at::kLong).sum().item<int64_t>(), 255 * (2 * 4 * 3 + 2 * 4));
  EXPECT_EQ(grid[1][6][0].item<int64_t>(), 255);
  EXPECT_EQ(grid[1][5][0].item<int64_t>(), 0);
  EXPECT_EQ(grid[4][1][1].item<int64_t>(), 255);
  EXPECT_EQ(grid[4][1][0].item<int64_t>(), 0);
}

TEST(image_grid, WritesAPicture) {
  const std::string path = ::testing::TempDir() + "/mtrun_image_grid_test.png";
  ASSERT_TRUE(WriteImageGrid(path, at::zeros({5, 3, 8, 8}), 4).ok());
  const auto file = ReadFile(path);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->substr(1, 3), "PNG");
  std::remove(path.c_str());
  EXPECT_FALSE(WriteImageGrid("/not/there/x.png", at::zeros({1, 3, 8, 8}), 4).ok());
}

}  // namespace
}  // namespace mtrun::trainers
