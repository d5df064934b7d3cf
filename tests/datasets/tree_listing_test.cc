#include "datasets/files/tree_listing.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::datasets {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Paths = std::vector<absl::string_view>;

/// Returns "split label path" of each image.
std::vector<std::string> Lines(const Paths& paths, const TreeOptions& options = {}) {
  const auto listing = ListTree(paths, options);
  EXPECT_TRUE(listing.ok()) << listing.status();
  std::vector<std::string> lines;
  if (!listing.ok()) return lines;
  for (const TreeImage& image : listing->images)
    lines.push_back(absl::StrCat(image.split, " ", image.label, " ", paths[image.path]));
  return lines;
}

std::string ListError(const Paths& paths, const TreeOptions& options = {}) {
  const auto listing = ListTree(paths, options);
  EXPECT_FALSE(listing.ok());
  return std::string(listing.status().message());
}

TEST(ListTreeTest, SortsBySplitClassAndName) {
  const Paths paths{"train/dog/2.png", "train/dog/10.png", "test/cat/a.jpg", "train/cat/z.jpg",
                    "train/Ant/b"};
  EXPECT_THAT(ListTree(paths)->classes, ElementsAre("Ant", "cat", "dog"));
  EXPECT_THAT(Lines(paths),
              ElementsAre("test 1 test/cat/a.jpg", "train 0 train/Ant/b", "train 1 train/cat/z.jpg",
                          "train 2 train/dog/10.png", "train 2 train/dog/2.png"));
}

TEST(ListTreeTest, AllSplitsAreKept) {
  for (const std::string val : {"val", "valid", "validation"}) {
    const std::string path = "set/" + val + "/a/2";
    EXPECT_THAT(Lines({"set/train/a/1", path, "set/test/a/3", "set/README", "README.md", "other/x"}),
                ElementsAre("test 0 set/test/a/3", "train 0 set/train/a/1", "val 0 " + path));
  }
}

TEST(ListTreeTest, FilesOutsideTheFoldersAreCounted) {
  EXPECT_EQ(
      ListTree({"set/train/a/1", "set/README.md", "z/x", "z/y", "set/Test/b/1", "1.jpg", ".git/x"})->left_out,
      (LeftOut{.others = 1, .outside = 4, .outside_folder = "set/Test/b"}));
  EXPECT_EQ(ListTree({"a/1", "b/1", "2", "README.txt"})->left_out,
            (LeftOut{.others = 1, .outside = 1, .outside_folder = "."}));
  EXPECT_EQ(ListTree({"a/1", "2"}, {.unlabelled = true})->left_out, LeftOut());
}

TEST(ListTreeTest, FoldersWithoutSplitsAreClassesOfTrain) {
  EXPECT_THAT(Lines({"photos/dog/1.jpg", "photos/cat/2.jpg", "photos/notes.txt"}),
              ElementsAre("train 0 photos/cat/2.jpg", "train 1 photos/dog/1.jpg"));
  EXPECT_THAT(Lines({"dog/1.jpg", "cat/2.jpg"}), ElementsAre("train 0 cat/2.jpg", "train 1 dog/1.jpg"));
}

TEST(ListTreeTest, FoldersInClassFoldersAreWalked) {
  EXPECT_THAT(Lines({"train/b/2021/1", "train/a/x/y/3", "train/a/2", "train/b/2020/1", "val/a/deep/1"}),
              ElementsAre("train 0 train/a/2", "train 0 train/a/x/y/3", "train 1 train/b/2020/1",
                          "train 1 train/b/2021/1", "val 0 val/a/deep/1"));
  // ImageFolder sorts by folders as texts, then by names: '-' is less than '/'.
  EXPECT_THAT(Lines({"train/a/b/c/1", "train/a/b-/1", "train/a/b/2", "train/a/z"}),
              ElementsAre("train 0 train/a/z", "train 0 train/a/b/2", "train 0 train/a/b-/1",
                          "train 0 train/a/b/c/1"));
}

TEST(ListTreeTest, FirstFoldersAreClassesIfTheirDepthsDiffer) {
  EXPECT_THAT(Lines({"set/cat/2020/1", "set/cat/2021/1", "set/dog/2"}),
              ElementsAre("train 0 set/cat/2020/1", "train 0 set/cat/2021/1", "train 1 set/dog/2"));
  EXPECT_THAT(Lines({"cat/2020/1", "dog/2020/1", ".git/x"}),
              ElementsAre("train 0 cat/2020/1", "train 1 dog/2020/1"));
  EXPECT_THAT(Lines({"cat/1", "cat/2020/1"}), ElementsAre("train 0 cat/1", "train 0 cat/2020/1"));
  EXPECT_THAT(ListTree({"set/cat/1", "set/cat/2020/1"})->classes, ElementsAre("cat"));
  EXPECT_THAT(ListTree({"ab/c/1", "abc/c/1"})->classes, ElementsAre("ab", "abc"));
  // The last folders are classes if they are in one folder, as before.
  EXPECT_THAT(ListTree({"set/cat/2020/1", "set/cat/2021/1"})->classes, ElementsAre("2020", "2021"));
}

TEST(ListTreeTest, UnlabelledFilesHaveOneClass) {
  const Paths paths{"b.jpg", "deep/er/a.jpg", "Thumbs.db"};
  EXPECT_THAT(Lines(paths, {.unlabelled = true}), ElementsAre("train 0 deep/er/a.jpg", "train 0 b.jpg"));
  EXPECT_THAT(ListTree(paths, {.unlabelled = true})->classes, ElementsAre("image"));
  for (const bool skip_bad : {false, true})
    EXPECT_THAT(ListError({"b.jpg", "deep/er/"}, {.unlabelled = true, .skip_bad = skip_bad}),
                HasSubstr("deep/er/ is nested too deeply"));
  EXPECT_THAT(ListError({"a/b/1", "a/b/c/"}, {.skip_bad = true}), HasSubstr("a/b/c/ is nested too deeply"));
}

TEST(ListTreeTest, FilesWithoutAnImageNameAreCounted) {
  const auto listing =
      ListTree({"train/a/1", "train/a/._1", "train/.DS_Store", ".git/train/x/y", "train/a/Thumbs.db"});
  ASSERT_TRUE(listing.ok()) << listing.status();
  EXPECT_EQ(listing->images.size(), 1u);
  EXPECT_EQ(listing->left_out, (LeftOut{.others = 3}));
}

TEST(ListTreeTest, DuplicatesAndUntrainedClassesAreOmittedAndCounted) {
  const Paths paths{"train/a/1", "train/b/1", "train/a/1", "val/x/1", "val/x/2", "val/w/1", "val/a/1"};
  EXPECT_THAT(ListError(paths), HasSubstr("--skip_bad"));
  const auto listing = ListTree(paths, {.skip_bad = true});
  ASSERT_TRUE(listing.ok()) << listing.status();
  EXPECT_EQ(listing->left_out, (LeftOut{.duplicates = 1, .untrained = 3, .untrained_classes = {"w", "x"}}));
  ASSERT_EQ(listing->images.size(), 3u);
  EXPECT_EQ(listing->images[0].path, 2u);  // the last one with its name
}

TEST(ListTreeTest, ClassesCanBeGivenInAnyOrder) {
  EXPECT_THAT(Lines({"train/9/1", "train/10/1"}, {.classes = {"9", "10"}}),
              ElementsAre("train 0 train/9/1", "train 1 train/10/1"));
  EXPECT_THAT(ListError({"train/9/1"}, {.classes = {"8"}}), HasSubstr("no class \"9\""));
}

TEST(ListTreeTest, ErrorNamesTheMismatch) {
  EXPECT_THAT(ListError({}), HasSubstr("train/<class>/<image>"));
  EXPECT_THAT(ListError({"c.jpg"}), HasSubstr("no images to train on"));
  EXPECT_THAT(ListError({"test/a/1"}), HasSubstr("no images to train on"));
  EXPECT_THAT(ListError({"train/1.jpg"}), HasSubstr("train/1.jpg is not in a class folder"));
  EXPECT_THAT(ListError({"set/train/photos/a/1", "set/train/photos/b/1", "set/test/photos/a/1"}),
              HasSubstr("set/train/photos/ would be the only class"));
  EXPECT_THAT(ListError({"train/a/1", "test/b/1"}), HasSubstr("train/ has no class \"b\""));
  EXPECT_THAT(ListError({"train/a/1", "valid/a/1", "val/a/1"}), HasSubstr("both the val split"));
  EXPECT_THAT(ListError({"train/a/1", "train/a/1"}), HasSubstr("twice"));
  EXPECT_THAT(ListError({"x/train/a/1", "y/train/a/1"}), HasSubstr("two different trees"));
}

}  // namespace
}  // namespace mtrun::datasets
