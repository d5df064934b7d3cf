#include "datasets/import/folder_layout.h"

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/datasets/files.h"

namespace mtrun::datasets {
namespace {

/// Returns the error, or "" if the layout is left to ListTree.
std::string Explain(const std::vector<absl::string_view>& paths, const std::string& above = "") {
  return std::string(
      CheckLayout(paths, {.source = "in put/", .destination = "out", .above = above}).message());
}

TEST(FolderLayoutTest, TreesOfClassesAreLeftAlone) {
  EXPECT_EQ(Explain({"cat/1.jpg", "dog/2.jpg", "3.jpg", ".DS_Store"}), "");
  EXPECT_EQ(Explain({"train/cat/1.jpg", "Testing/cat/1.jpg"}), "");
  EXPECT_EQ(Explain({"cat/2020/1.jpg", "dog/2020/1.jpg"}), "");
  EXPECT_EQ(Explain({"Train/1.jpg", "Test/1.jpg"}), "") << "these hold images, as classes do";
}

TEST(FolderLayoutTest, ImagesWithoutClassFolders) {
  EXPECT_EQ(Explain({"1.jpg", "2.jpg", "notes.txt", "._1.jpg"}),
            "in put holds 2 images and no class folders; import without classes with: mtdata import 'in put' "
            "out --unlabelled");
  EXPECT_EQ(
      Explain({"1.jpg"}, "/photos"),
      "in put holds 1 image and no class folders; if it is one class of several, import all with: mtdata "
      "import /photos out, or without classes: mtdata import 'in put' out --unlabelled");
  EXPECT_EQ(Explain({"notes.txt", "__MACOSX/1.jpg"}),
            "in put holds no images; mtdata import --help lists what can be imported");
}

TEST(FolderLayoutTest, SplitsUnderOtherNames) {
  EXPECT_EQ(Explain({"Training/cat/1.jpg", "Training/dog/1.jpg", "Testing/cat/1.jpg", "README.md"}),
            "in put: the splits are called Training/ and Testing/; import them with: mtdata import 'in "
            "put/Training' out --test_source 'in put/Testing'");
  EXPECT_EQ(Explain({"set/seg_train/seg_train/sea/1.jpg", "set/seg_train/seg_train/ice/1.jpg",
                     "set/seg_test/seg_test/sea/1.jpg", "set/seg_pred/seg_pred/1.jpg"}),
            "in put: the splits are called set/seg_train/ and set/seg_test/; import them with: mtdata import "
            "'in put/set/seg_train/seg_train' out --test_source 'in put/set/seg_test/seg_test'");
  EXPECT_EQ(Explain({"TRAIN/a/1.jpg", "TRAIN/b/1.jpg", "TEST/a/1.jpg", "Valid/b/1.jpg"}),
            "in put: the splits are called TRAIN/ and Valid/ and TEST/; import them with: mtdata import 'in "
            "put/TRAIN' out --val_source 'in put/Valid' --test_source 'in put/TEST'");
}

TEST(FolderLayoutTest, SplitWithoutClassesIsNotImported) {
  EXPECT_EQ(
      Explain({"Train/cat/1.jpg", "Train/dog/1.jpg", "Test/1.jpg"}),
      "in put: the images to train on are in Train/; import them with: mtdata import 'in put/Train' out "
      "--test_share 0.1");
  EXPECT_EQ(Explain({"Training/cat/1.jpg", "Testing/cat/1.jpg"}),
            "in put: the splits are called Training/ and Testing/; import them with: mtdata import 'in "
            "put/Training' out --test_source 'in put/Testing'");
}

TEST(FolderLayoutTest, NamesThatMeanSplits) {
  for (const char* name : {"Training", "train_images", "images-train", "TRAIN", "Train set"})
    EXPECT_EQ(SplitMeant(name), "train") << name;
  EXPECT_EQ(SplitMeant("Testing"), "test");
  EXPECT_EQ(SplitMeant("dev"), "val");
  for (const char* name : {"trains", "latest", "train_test", "", "contest"})
    EXPECT_EQ(SplitMeant(name), "") << name;
}

TEST(FolderLayoutTest, FolderAmongOthersWithImagesIsOneClass) {
  const test::TempFolder folder;
  for (const char* name : {"photos/cat/1.jpg", "photos/dog/1.jpg", "set/train/cat/1.jpg",
                           "set/train/dog/1.jpg", "alone/cat/1.jpg", "alone/.dog/1.jpg", "alone/text/1.txt"})
    test::Write(folder / name, "x");
  const std::string top = std::filesystem::canonical(folder.path()).string();
  EXPECT_EQ(FolderOfClasses(folder / "photos/cat/"), top + "/photos");
  EXPECT_EQ(FolderOfClasses(folder / "set/train/cat"), top + "/set");
  EXPECT_EQ(FolderOfClasses(folder / "alone/cat"), "");
  EXPECT_EQ(FolderOfClasses(folder / "none.zip"), "");
}

}  // namespace
}  // namespace mtrun::datasets
