#include "datasets/import/image_folder.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"

namespace mtrun::datasets {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ImageFolderTest, TakesTheSizeFromTheFirstGoodImage) {
  const test::TempFolder folder;
  test::Write(folder / "train/a/0.png", "broken");
  test::Write(folder / "train/a/1.png", test::Encode(".png", test::Picture(4, 6, 0), 4, 6));
  EXPECT_TRUE(LooksLikeImageFolder(folder.path()));
  EXPECT_TRUE(LooksLikeImageFolder(folder / "train"));
  EXPECT_FALSE(LooksLikeImageFolder(folder / "train/a"));
  const auto source = OpenImageFolder(folder.path(), {});
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_TRUE((*source)->FindShape().ok());
  EXPECT_EQ((*source)->shape().height, 4);
  EXPECT_EQ((*source)->shape().width, 6);
  EXPECT_THAT((*source)->shape().splits, ElementsAre(testing::Pair("train", 2)));
}

TEST(ImageFolderTest, FolderWithoutReadableImagesIsAnError) {
  const test::TempFolder folder;
  test::Write(folder / "train/a/0.png", "broken");
  const auto source = OpenImageFolder(folder.path(), {});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(std::string((*source)->FindShape().message()), HasSubstr("train/a/0.png: not a JPEG or PNG"));
}

TEST(ImageFolderTest, FolderInAClassFolderIsRefused) {
  const test::TempFolder folder;
  test::Write(folder / "train/a/images/0.png", "x");
  const auto source = OpenImageFolder(folder.path(), {});
  ASSERT_FALSE(source.ok());
  EXPECT_THAT(std::string(source.status().message()), HasSubstr("train/a/images/ is nested deeper"));
}

}  // namespace
}  // namespace mtrun::datasets
