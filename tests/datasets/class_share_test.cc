#include "datasets/files/class_share.h"

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "datasets/files/tree_listing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::datasets {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Names = std::vector<std::string>;

/// Returns "<class>/<draw>_<i>.jpg" for `count` images of each class.
Names ImagesOf(int classes, int count, int draw = 0) {
  Names names;
  for (int c = 0; c < classes; ++c) {
    for (int i = 0; i < count; ++i) names.push_back(absl::StrCat("class_", c, "/", draw, "_", i, ".jpg"));
  }
  return names;
}

std::string ShareError(const Names& names, const Shares& shares) {
  const std::vector<absl::string_view> paths(names.begin(), names.end());
  return std::string(ListTree(paths, {.shares = shares}).status().message());
}

/// Returns the paths of each split.
std::map<std::string, std::set<std::string>> Splits(const Names& names, const TreeOptions& options) {
  const std::vector<absl::string_view> paths(names.begin(), names.end());
  const auto listing = ListTree(paths, options);
  EXPECT_TRUE(listing.ok()) << listing.status();
  std::map<std::string, std::set<std::string>> splits;
  if (!listing.ok()) return splits;
  for (const TreeImage& image : listing->images) splits[std::string(image.split)].insert(names[image.path]);
  return splits;
}

/// Returns the number of images by class.
std::map<std::string, int> Counts(const std::set<std::string>& paths) {
  std::map<std::string, int> counts;
  for (const std::string& path : paths) ++counts[path.substr(0, path.find('/'))];
  return counts;
}

TEST(ClassShareTest, EachClassGivesItsRoundedShare) {
  for (int draw = 0; draw < 8; ++draw) {
    for (const auto& [classes, count, share, expected] :
         {std::tuple(6, 20, 0.1, 2), {2, 8, 0.1, 1}, {3, 15, 0.1, 2}, {2, 4, 0.1, 1}, {2, 2, 0.9, 1}}) {
      auto splits = Splits(ImagesOf(classes, count, draw), {.shares = {.test = share}});
      const auto counts = Counts(splits["test"]);
      EXPECT_EQ(counts.size(), static_cast<size_t>(classes)) << draw << " " << count;
      for (const auto& [name, images] : counts) EXPECT_EQ(images, expected) << name << " of " << count;
      EXPECT_EQ(splits["train"].size() + splits["test"].size(), static_cast<size_t>(classes * count));
    }
  }
}

TEST(ClassShareTest, ChoosesLowestHashesOfClassAndFile) {
  // Lowest first 8 bytes of: for i in range(10): hashlib.sha256(b"class_0/0_%d.jpg" % i)
  auto splits = Splits(ImagesOf(1, 10), {.shares = {.test = 0.2, .val = 0.2}});
  EXPECT_THAT(splits["test"], ElementsAre("class_0/0_2.jpg", "class_0/0_8.jpg"));
  EXPECT_THAT(splits["val"], ElementsAre("class_0/0_1.jpg", "class_0/0_3.jpg"));
}

TEST(ClassShareTest, SingleImageOfAClassStaysInTrain) {
  Names names = ImagesOf(1, 10);
  names.push_back("rare/1.jpg");
  auto splits = Splits(names, {.shares = {.test = 0.5, .val = 0.1}});
  EXPECT_EQ(splits["train"].count("rare/1.jpg"), 1u);
  splits = Splits(ImagesOf(2, 2), {.shares = {.test = 0.3, .val = 0.3}});
  EXPECT_EQ(Counts(splits["test"]).size(), 2u);
  EXPECT_EQ(splits.count("val"), 0u) << "the last image of a class is for training";
}

TEST(ClassShareTest, MoreImagesKeepMostOfTheSplit) {
  auto half = Splits(ImagesOf(1, 500), {.shares = {.test = 0.1}});
  auto all = Splits(ImagesOf(1, 1000), {.shares = {.test = 0.1}});
  EXPECT_EQ(half["test"].size(), 50u);
  EXPECT_EQ(all["test"].size(), 100u);
  std::vector<std::string> kept;
  std::set_intersection(half["test"].begin(), half["test"].end(), all["test"].begin(), all["test"].end(),
                        std::back_inserter(kept));
  EXPECT_GE(kept.size(), 35u);
}

TEST(ClassShareTest, RepeatedNamesAreOneImage) {
  Names names = ImagesOf(1, 4);
  for (const std::string& name : ImagesOf(1, 4)) names.push_back(name);
  auto splits = Splits(names, {.shares = {.test = 0.5}, .skip_bad = true});
  EXPECT_EQ(splits["test"].size(), 2u);
  EXPECT_EQ(splits["train"].size(), 2u);
}

TEST(ClassShareTest, ImagesWithoutClassesShareOneClass) {
  auto splits =
      Splits({"1.jpg", "a/2.jpg", "b/2.jpg", "4.jpg"}, {.shares = {.test = 0.5}, .unlabelled = true});
  EXPECT_EQ(splits["test"].size(), 2u);
}

TEST(ClassShareTest, ValShareCanComeBesideATestFolder) {
  auto splits = Splits({"train/a/1", "train/a/2", "train/a/3", "test/a/1"}, {.shares = {.val = 0.3}});
  EXPECT_EQ(splits["val"].size(), 1u);
  EXPECT_THAT(splits["test"], ElementsAre("test/a/1"));
}

TEST(ClassShareTest, SplitOfTheSourceIsNotTakenTwice) {
  EXPECT_THAT(ShareError({"train/a/1", "train/a/2", "validation/a/1"}, {.val = 0.1}),
              HasSubstr("--val_share: the source already has a folder validation/"));
  EXPECT_THAT(ShareError({"train/a/1", "train/a/2", "test/a/1"}, {.test = 0.1, .val = 0.1}),
              HasSubstr("--test_share: the source already has a folder test/"));
}

}  // namespace
}  // namespace mtrun::datasets
