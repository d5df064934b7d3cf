#include "datasets/import/image_folder.h"

#include <filesystem>

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
  const auto source = OpenImageFolder({.source = folder.path()});
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_TRUE((*source)->FindShape().ok());
  EXPECT_EQ((*source)->shape().height, 4);
  EXPECT_EQ((*source)->shape().width, 6);
  EXPECT_THAT((*source)->shape().splits, ElementsAre(testing::Pair("train", 2)));
}

TEST(ImageFolderTest, FolderWithoutReadableImagesIsAnError) {
  const test::TempFolder folder;
  test::Write(folder / "train/a/0.png", "broken");
  const auto source = OpenImageFolder({.source = folder.path()});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(std::string((*source)->FindShape().message()), HasSubstr("train/a/0.png: not a JPEG or PNG"));
}

TEST(ImageFolderTest, WalksClassFolders) {
  const test::TempFolder folder;
  for (const char* name : {"a/2020/01/0.png", "a/1.png", "b/2020/0.png", "b/2021/02/0.png"}) {
    test::Write(folder / "set/train/" + name, "x");
    test::Write(folder / "plain/" + name, "x");
  }
  for (const char* name : {"set", "plain"}) {
    EXPECT_TRUE(LooksLikeImageFolder(folder / name));
    const auto source = OpenImageFolder({.source = folder / name});
    ASSERT_TRUE(source.ok()) << source.status();
    const TreeListing& listing = (*source)->files()->listing;
    EXPECT_THAT(listing.classes, ElementsAre("a", "b"));
    EXPECT_EQ(listing.images.size(), 4u);
    EXPECT_EQ(*(*source)->files()->Read(1), "x");
  }
  std::filesystem::remove_all(folder / "plain/a/1.png");
  std::filesystem::remove_all(folder / "plain/b/2020");
  EXPECT_TRUE(LooksLikeImageFolder(folder / "plain")) << "if all images are deeper";
}

TEST(ImageFolderTest, LinkInAClassFolderIsRefused) {
  const test::TempFolder folder;
  test::Write(folder / "train/a/2020/0.png", "x");
  std::filesystem::create_directory_symlink("..", folder / "train/a/2020/back");
  const auto source = OpenImageFolder({.source = folder.path()});
  ASSERT_FALSE(source.ok());
  EXPECT_THAT(std::string(source.status().message()),
              HasSubstr("train/a/2020/back/ is nested too deeply, or is a link to a folder"));
}

TEST(ImageFolderTest, WarnsAboutClassesThatCannotBeEvaluated) {
  const auto warning = [](const std::vector<TreeImage>& images, const Shares& shares = {}) {
    return EvaluationWarning({.classes = {"a", "b", "c"}, .images = images}, "photos", shares);
  };
  const std::vector<TreeImage> trained{{"train", 0, 0}, {"train", 1, 1}, {"train", 2, 2}};
  const auto with = [&](std::vector<TreeImage> more) {
    more.insert(more.end(), trained.begin(), trained.end());
    return more;
  };
  EXPECT_THAT(warning(trained), HasSubstr("--test_share 0.1 sets a tenth of each class aside"));
  EXPECT_THAT(warning(trained, {.test = 0.1}), HasSubstr("photos has one image of each class"));
  EXPECT_EQ(warning(with({{"test", 1, 0}})), "photos: test has no images of 2 of 3 classes: a, c");
  EXPECT_EQ(warning(with({{"val", 0, 0}, {"val", 2, 0}})), "photos: val has no images of 1 of 3 classes: b");
  EXPECT_EQ(warning(with({{"test", 0, 0}, {"test", 1, 0}, {"test", 2, 0}, {"val", 0, 0}})), "");
}

}  // namespace
}  // namespace mtrun::datasets
