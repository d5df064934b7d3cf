#include "datasets/packed/class_list.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::datasets {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

TEST(ClassListTest, TakesTheFirstWordsOrTheSecondOnesAfterNumbers) {
  const auto names = ParseClassList("n2 tench, Tinca tinca\r\n\nn1\n");
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_THAT(names->names, ElementsAre("n2", "n1"));
  EXPECT_TRUE(names->ids.empty());
  const auto ids = ParseClassList("2 n2 x\n1\tn1");
  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_THAT(ids->ids, ElementsAre(Pair(1, "n1"), Pair(2, "n2")));
  EXPECT_THAT(ParseClassList("0\n1\n")->names, ElementsAre("0", "1"));  // only digits: a name
}

TEST(ClassListTest, ErrorNamesTheBadLine) {
  const auto error = [](std::string_view text) {
    return std::string(ParseClassList(text).status().message());
  };
  EXPECT_THAT(error("\n \n"), HasSubstr("contains no class"));
  EXPECT_THAT(error("a\nb\na"), HasSubstr("line 3: class a occurs twice"));
  EXPECT_THAT(error("1 a\n1 b"), HasSubstr("number 1 occurs twice"));
  EXPECT_THAT(error("1 a\nb"), HasSubstr("line 2: only some of the lines begin with a number"));
  EXPECT_THAT(error("a\n1 b"), HasSubstr("line 2: only some of the lines begin with a number"));
  EXPECT_THAT(error("../a"), HasSubstr("cannot be the name"));
  EXPECT_THAT(error("a\xff"), HasSubstr("a\\xff"));
  EXPECT_THAT(error("100000 a"), HasSubstr("more than 100000 classes"));
}

TEST(ClassListTest, SmallNumbersHaveNoSignAndNineDigitsAtMost) {
  EXPECT_EQ(SmallNumber("007"), 7);
  EXPECT_EQ(SmallNumber("999999999"), 999999999);
  for (const char* text : {"", "-1", "+1", "1.0", " 1", "1000000000", "x"})
    EXPECT_EQ(SmallNumber(text), -1) << text;
}

}  // namespace
}  // namespace mtrun::datasets
