#include "datasets/image_folder.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"

namespace mtrun::datasets {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string ListError(std::vector<std::string> paths) {
  const auto listing = ListTree(std::move(paths));
  EXPECT_FALSE(listing.ok());
  return std::string(listing.status().message());
}

TEST(ListTreeTest, SortsBySplitClassAndName) {
  const auto listing =
      ListTree({"train/dog/2.png", "train/dog/10.png", "test/cat/a.jpg", "train/cat/z.jpg", "train/Ant/b"});
  ASSERT_TRUE(listing.ok()) << listing.status();
  EXPECT_THAT(listing->classes, ElementsAre("Ant", "cat", "dog"));
  EXPECT_THAT(listing->images,
              ElementsAre(TreeImage{"test", 1, "test/cat/a.jpg"}, TreeImage{"train", 0, "train/Ant/b"},
                          TreeImage{"train", 1, "train/cat/z.jpg"}, TreeImage{"train", 2, "train/dog/10.png"},
                          TreeImage{"train", 2, "train/dog/2.png"}));
}

TEST(ListTreeTest, ValCountsAsTestAndAPrefixIsFine) {
  const auto listing = ListTree({"set/train/a/1", "set/val/a/2", "set/README", "README.md", "other/x"});
  ASSERT_TRUE(listing.ok()) << listing.status();
  EXPECT_THAT(listing->images,
              ElementsAre(TreeImage{"train", 0, "set/train/a/1"}, TreeImage{"test", 0, "set/val/a/2"}));
}

TEST(ListTreeTest, HiddenFilesArePassedOver) {
  const auto listing = ListTree({"train/a/1", "train/a/._1", "train/.DS_Store", ".git/train/x/y"});
  ASSERT_TRUE(listing.ok()) << listing.status();
  EXPECT_EQ(listing->images.size(), 1u);
}

TEST(ListTreeTest, WhatDoesNotFitIsNamed) {
  EXPECT_THAT(ListError({}), HasSubstr("train/<class>/<image>"));
  EXPECT_THAT(ListError({"a/b/c.jpg"}), HasSubstr("no images to train on"));
  EXPECT_THAT(ListError({"test/a/1"}), HasSubstr("no images to train on"));
  EXPECT_THAT(ListError({"train/1.jpg"}), HasSubstr("train/1.jpg lies in no class folder"));
  EXPECT_THAT(ListError({"train/a/images/1.jpg"}), HasSubstr("deeper"));
  EXPECT_THAT(ListError({"train/a/1", "test/b/1"}), HasSubstr("train/ has no class \"b\""));
  EXPECT_THAT(ListError({"train/a/1", "test/a/1", "val/a/1"}), HasSubstr("test/ and val/"));
  EXPECT_THAT(ListError({"train/a/1", "train/a/1"}), HasSubstr("twice"));
  EXPECT_THAT(ListError({"x/train/a/1", "y/train/a/1"}), HasSubstr("two trees"));
}

TEST(ImageFolderTest, TakesTheSizeFromTheFirstGoodImage) {
  const test::TempFolder folder;
  test::Write(folder / "train/a/0.png", "broken");
  test::Write(folder / "train/a/1.png", test::Encode(".png", test::Picture(4, 6, 0), 4, 6));
  EXPECT_TRUE(LooksLikeImageFolder(folder.path()));
  const auto source = OpenImageFolder(folder.path(), {});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->shape().height, 4);
  EXPECT_EQ((*source)->shape().width, 6);
  EXPECT_THAT((*source)->shape().splits, ElementsAre(testing::Pair("train", 2)));
}

TEST(ImageFolderTest, NotOneReadableImageIsAnError) {
  const test::TempFolder folder;
  test::Write(folder / "train/a/0.png", "broken");
  const auto source = OpenImageFolder(folder.path(), {});
  ASSERT_FALSE(source.ok());
  EXPECT_THAT(std::string(source.status().message()), HasSubstr("train/a/0.png: not a JPEG or PNG"));
}

TEST(ImageFolderTest, AFolderInAClassFolderIsRefused) {
  const test::TempFolder folder;
  test::Write(folder / "train/a/images/0.png", "x");
  const auto source = OpenImageFolder(folder.path(), {});
  ASSERT_FALSE(source.ok());
  EXPECT_THAT(std::string(source.status().message()), HasSubstr("train/a/images/ lies deeper"));
}

}  // namespace
}  // namespace mtrun::datasets
