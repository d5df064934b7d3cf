#include "datasets/import/webdataset_names.h"

#include "gtest/gtest.h"

namespace mtrun::datasets {
namespace {

TEST(WebDatasetNamesTest, KeyEndsAtTheFirstDotOfTheLastName) {
  EXPECT_EQ(ParseSampleName("a.b/x_1.jpg"), (SampleName{"a.b/x_1", "x_1.jpg", "jpg", SamplePart::kImage}));
  EXPECT_EQ(ParseSampleName("x.seg.PNG"), (SampleName{"x", "x.seg.PNG", "seg.PNG", SamplePart::kImage}));
  EXPECT_EQ(ParseSampleName("x.cls"), (SampleName{"x", "x.cls", "cls", SamplePart::kClass}));
  EXPECT_EQ(ParseSampleName("x.json"), (SampleName{"x", "x.json", "json", SamplePart::kJson}));
  EXPECT_EQ(ParseSampleName("x.txt").part, SamplePart::kOther);
  EXPECT_EQ(ParseSampleName("a.b/x"), (SampleName{"a.b/x", "x", "", SamplePart::kOther}));
  EXPECT_EQ(ParseSampleName("").key, "");
}

TEST(WebDatasetNamesTest, FieldWithoutADotPrecedesOthers) {
  const auto choose = [](const std::vector<absl::string_view>& fields, SamplePart part,
                         const std::vector<std::string>& wanted = {}) {
    const auto chosen = ChooseField(fields, part, wanted);
    if (!chosen.ok()) return std::string(chosen.status().message());
    return *chosen ? std::string(fields[**chosen]) : "none";
  };
  EXPECT_EQ(choose({"seg.png", "mask.png", "jpg", "cls"}, SamplePart::kImage), "jpg");
  EXPECT_EQ(choose({"seg.png", "cls"}, SamplePart::kImage), "seg.png");
  EXPECT_EQ(choose({"cls"}, SamplePart::kImage), "none");
  EXPECT_EQ(choose({"top.cls", "cls", "json"}, SamplePart::kClass), "cls");
  EXPECT_EQ(choose({"jpg", "png"}, SamplePart::kImage),
            "has both .jpg and .png: choose with --image_field jpg");
  EXPECT_EQ(choose({"a.cls", "b.cls"}, SamplePart::kClass),
            "has both .a.cls and .b.cls: choose with --class_field a.cls");
  EXPECT_EQ(choose({"seg.png", "jpg", "SEG.png"}, SamplePart::kImage, {"webp", "seg.png"}), "SEG.png");
  EXPECT_EQ(choose({"jpg", "txt"}, SamplePart::kClass, {"txt"}), "txt");
  EXPECT_EQ(choose({"jpg"}, SamplePart::kImage, {"png"}), "none");
  EXPECT_EQ(*ChooseField({"jpg", "cls", "jpg"}, SamplePart::kImage, {}), 2u) << "the last one";
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
