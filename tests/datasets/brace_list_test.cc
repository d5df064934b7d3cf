#include "datasets/import/brace_list.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::datasets {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(BraceListTest, RangesListsAndProducts) {
  EXPECT_THAT(*ExpandBraces("a.tar"), ElementsAre("a.tar"));
  EXPECT_THAT(*ExpandBraces("t-{08..11}.tar"), ElementsAre("t-08.tar", "t-09.tar", "t-10.tar", "t-11.tar"));
  EXPECT_THAT(*ExpandBraces("{9..10}"), ElementsAre("9", "10"));
  EXPECT_THAT(*ExpandBraces("{0..10}"), ElementsAre("0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"));
  EXPECT_THAT(*ExpandBraces("{00..1}"), ElementsAre("00", "01"));
  EXPECT_THAT(*ExpandBraces("{a,b}{1..2}x"), ElementsAre("a1x", "a2x", "b1x", "b2x"));
  EXPECT_EQ(ExpandBraces("train-{000000..000146}.tar")->back(), "train-000146.tar");
  EXPECT_EQ(ExpandBraces("{0..99999}")->size(), kMaxBraceNames);
}

TEST(BraceListTest, InvalidListIsRefused) {
  for (const char* text : {"{", "}", "a{1..2", "a}b", "{a,{b,c}}", "{{1..2}}", "{1..2}}"})
    EXPECT_THAT(std::string(ExpandBraces(text).status().message()), HasSubstr("brace")) << text;
  for (const char* text : {"{}", "{a}", "{..}", "{1..}", "{a..c}", "{-1..2}", "{1..2..3}", "{2..1}",
                           "{0..100000}", "{0..9999999999}", "{1..1000}{1..1000}"})
    EXPECT_TRUE(absl::IsInvalidArgument(ExpandBraces(text).status())) << text;
}

}  // namespace
}  // namespace mtrun::datasets
