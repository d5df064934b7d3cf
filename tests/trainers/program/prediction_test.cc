#include "trainers/program/prediction.h"

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"

namespace mtrun::trainers {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(Prediction, MostProbableClassesComeFirst) {
  const std::vector<std::string> classes = {"a", "b", "c", "d"};
  EXPECT_THAT(TopK({0.1, 0.4, 0.1, 0.4}, classes, 3),
              ElementsAre(Pair("b", 0.4), Pair("d", 0.4), Pair("a", 0.1)));
  EXPECT_EQ(TopK({0.1, 0.4, 0.1, 0.4}, classes, 9).size(), 4u);
}

TEST(Prediction, FileNameChoosesTheFormat) {
  EXPECT_EQ(*FormatOf("x/predictions.csv"), PredictionFormat::kCsv);
  EXPECT_EQ(*FormatOf("p.jsonl"), PredictionFormat::kJsonLines);
  EXPECT_EQ(*FormatOf("p.html"), PredictionFormat::kPage);
  EXPECT_THAT(std::string(FormatOf("p.txt").status().message()), HasSubstr(".csv, .jsonl or .html"));
}

TEST(Prediction, CsvQuotesOnlyWhenNeeded) {
  EXPECT_EQ(HeadLine(PredictionFormat::kCsv, 2), "file,class_1,probability_1,class_2,probability_2,error\n");
  EXPECT_EQ(
      ToLine({.file = "a,b.png", .best = {{"say \"hi\"", 0.75}, {"dog", 0.25}}}, PredictionFormat::kCsv, 2),
      "\"a,b.png\",\"say \"\"hi\"\"\",0.75,dog,0.25,\n");
  EXPECT_EQ(ToLine({.file = "c.png", .error = "no image"}, PredictionFormat::kCsv, 2),
            "c.png,,,,,no image\n");
}

TEST(Prediction, JsonHasOneLinePerFile) {
  EXPECT_EQ(HeadLine(PredictionFormat::kJsonLines, 2), "");
  EXPECT_EQ(ToLine({.file = "a.png", .best = {{"dog", 0.25}}}, PredictionFormat::kJsonLines, 5),
            "{\"file\":\"a.png\",\"top\":[{\"class\":\"dog\",\"probability\":0.25}]}\n");
  EXPECT_EQ(ToLine({.file = "a.png", .error = "no image"}, PredictionFormat::kJsonLines, 5),
            "{\"error\":\"no image\",\"file\":\"a.png\"}\n");
  EXPECT_THAT(ToLine({.file = "\xff.png"}, PredictionFormat::kJsonLines, 1), HasSubstr("\xEF\xBF\xBD.png"));
}

TEST(Prediction, PageHasPicturesAndNoMarkupOfNames) {
  const auto format = PredictionFormat::kPage;
  const std::string page = absl::StrCat(
      HeadLine(format, 2),
      ToLine({.file = "a<script>\x1b.png", .best = {{"R&B", 0.875}, {"dog", 0.125}}, .jpeg = "JPEG"}, format,
             2),
      ToLine({.file = "b.png", .error = "it is <no> image"}, format, 2), TailLine(format));
  for (const char* part :
       {"<!DOCTYPE html>", "default-src 'none'", "a&lt;script&gt;\\x1b.png", "R&amp;B", "<dd>87.5 %</dd>",
        "src=\"data:image/jpeg;base64,SlBFRw==\"", "it is &lt;no&gt; image", "</html>"})
    EXPECT_THAT(page, HasSubstr(part)) << part;
  EXPECT_THAT(page, ::testing::Not(HasSubstr("<script>")));
}

}  // namespace
}  // namespace mtrun::trainers
