#include "datasets/import/webdataset_names.h"

#include "gtest/gtest.h"

namespace mtrun::datasets {
namespace {

TEST(WebDatasetNamesTest, KeyEndsAtTheFirstDotOfTheLastName) {
  EXPECT_EQ(ParseSampleName("a.b/x_1.jpg"), (SampleName{"a.b/x_1", "x_1.jpg", SamplePart::kImage}));
  EXPECT_EQ(ParseSampleName("x.seg.PNG"), (SampleName{"x", "x.seg.PNG", SamplePart::kImage}));
  EXPECT_EQ(ParseSampleName("x.cls"), (SampleName{"x", "x.cls", SamplePart::kClass}));
  EXPECT_EQ(ParseSampleName("x.json"), (SampleName{"x", "x.json", SamplePart::kJson}));
  EXPECT_EQ(ParseSampleName("x.txt").part, SamplePart::kOther);
  EXPECT_EQ(ParseSampleName("a.b/x"), (SampleName{"a.b/x", "x", SamplePart::kOther}));
  EXPECT_EQ(ParseSampleName("").key, "");
}

TEST(WebDatasetNamesTest, ClassesAreNumbersOrNames) {
  EXPECT_EQ(*ParseClassFile("007\n"), "7");
  EXPECT_EQ(*ParseClassFile(" cat "), "cat");
  for (const char* text : {"", " \n", "a/b", "..", "100000", "a\x01"})
    EXPECT_TRUE(absl::IsInvalidArgument(ParseClassFile(text).status())) << text;
}

TEST(WebDatasetNamesTest, ClassesInJson) {
  EXPECT_EQ(*ParseJsonFile(R"({"label": 3, "class_name": "x"})"), "3");
  EXPECT_EQ(*ParseJsonFile(R"({"label": 3, "cls": 4})"), "4");
  EXPECT_EQ(*ParseJsonFile(R"({"class_name": "cat"})"), "cat");
  for (const char* text : {"", "{", "[1]", "{}", R"({"label": -1})", R"({"label": 1.5})", R"({"label": [1]})",
                           R"({"label": null})", R"({"label": 18446744073709551615})"})
    EXPECT_FALSE(ParseJsonFile(text).ok()) << text;
}

TEST(WebDatasetNamesTest, NamesGiveTheSplits) {
  EXPECT_EQ(SplitInName("imagenet-val-000001.tar"), "val");
  EXPECT_EQ(SplitInName("train_0.tar"), "train");
  EXPECT_EQ(SplitInName("trainer-0.tar"), "");
  EXPECT_EQ(SplitInName("train-test-0.tar"), "");
}

}  // namespace
}  // namespace mtrun::datasets
