#include "datasets/import/ground_truth.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::datasets {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<absl::string_view> kFiles{"v_1.JPEG", "v_2.JPEG", "v_3.JPEG"};

std::vector<std::string> Find(std::string_view text, const std::optional<ClassList>& classes = {}) {
  const auto found = FindClasses(text, classes, kFiles);
  EXPECT_TRUE(found.ok()) << found.status();
  return found.ok() ? *found : std::vector<std::string>();
}

std::string Error(std::string_view text, const std::optional<ClassList>& classes = {}) {
  const auto found = FindClasses(text, classes, kFiles);
  EXPECT_FALSE(found.ok());
  return std::string(found.status().message());
}

TEST(GroundTruthTest, NamesInTheOrderOfTheFiles) {
  EXPECT_THAT(Find("n2\r\nn1\n\nn2\n"), ElementsAre("n2", "n1", "n2"));
  EXPECT_THAT(Error("n2\nn1\n"), HasSubstr("2 lines for 3 images"));
}

TEST(GroundTruthTest, NamesByFile) {
  EXPECT_THAT(Find("v_3.JPEG a\nv_1 b\nother c\nv_2.JPEG b"), ElementsAre("b", "b", "a"));
  EXPECT_THAT(Error("v_3 a\nv_1 b"), HasSubstr("no line for v_2.JPEG"));
  EXPECT_THAT(Error("v_1 a\nv_1.JPEG b"), HasSubstr("line 2: v_1 occurs twice"));
  EXPECT_THAT(Error("v_1 a\nb"), HasSubstr("line 2: only some of the lines name a file"));
  EXPECT_THAT(Error("v_1 a b"), HasSubstr("line 1: expected"));
}

TEST(GroundTruthTest, KagglesTable) {
  EXPECT_THAT(Find("ImageId,PredictionString\nv_2,n1 1 2 3 4 n1 5 6 7 8\nv_1,n2 1 2 3 4\nv_3,n1 0 0 0 0\n"),
              ElementsAre("n2", "n1", "n1"));
  EXPECT_THAT(Error("ImageId,PredictionString\nv_2\n"), HasSubstr("line 2"));
}

TEST(GroundTruthTest, NumberRangeTellsWhetherTheyStartAt0Or1) {
  const ClassList unsorted{.names = {"n2", "n1"}, .ids = {}}, sorted{.names = {"n1", "n2"}, .ids = {}};
  EXPECT_THAT(Find("1\n2\n1\n", unsorted), ElementsAre("n2", "n1", "n2"));
  EXPECT_THAT(Find("v_1 0\nv_2 1\nv_3 0", sorted), ElementsAre("n1", "n2", "n1"));
  EXPECT_THAT(Find("v_1 1\nv_2 2\nv_3 1", sorted), ElementsAre("n1", "n2", "n1"));
  EXPECT_THAT(Error("1\n1\n1\n", unsorted), HasSubstr("start at 0 or 1"));
  EXPECT_THAT(Error("0\n2\n1\n", unsorted), HasSubstr("start at 0 or 1"));
  EXPECT_THAT(Error("1\n2\n1\n"), HasSubstr("--class_list"));
  // The devkit's numbers with synset_words.txt would give every image a wrong class.
  EXPECT_THAT(Error("1\n2\n1\n", sorted), HasSubstr("ILSVRC2012_ID"));
}

TEST(GroundTruthTest, NumbersOfTheClassListTakePrecedence) {
  const ClassList list{.names = {"n2", "n1", "n5"}, .ids = {{1, "n2"}, {2, "n1"}, {1001, "n5"}}};
  EXPECT_THAT(Find("1\n1\n2\n", list), ElementsAre("n2", "n2", "n1"));
  EXPECT_THAT(Error("1\n3\n2\n", list), HasSubstr("line 2: number missing in the class list: 3"));
}

}  // namespace
}  // namespace mtrun::datasets
