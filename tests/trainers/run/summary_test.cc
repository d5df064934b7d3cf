#include "trainers/run/records/summary.h"

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/terminal.h"

namespace mtrun::trainers {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RunReport Report(int classes, int64_t images, const std::string& name = "class") {
  RunReport report;
  report.program = "cnnA";
  std::vector<int64_t> counts(static_cast<size_t>(classes) * classes);
  for (int c = 0; c < classes; ++c) {
    report.class_names.push_back(absl::StrCat(name, "_", c));
    counts[static_cast<size_t>(c) * classes + c] = images - c;
    counts[static_cast<size_t>(c) * classes + (c + 1) % classes] += c;
  }
  report.matrix = ConfusionMatrix(counts);
  report.test_loss = 0.4321;
  report.best_accuracy = 0.86;
  report.best_epoch = 7;
  report.epochs = 10;
  report.steps = 31250;
  report.global_batch = 16;
  report.micro_batch = 8;
  report.world_size = 3;
  report.seconds = 200;
  report.training_seconds = 180;
  report.images_per_second = 2500;
  return report;
}

void ExpectFits(const std::string& text, size_t columns, size_t rows) {
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  EXPECT_LE(lines.size(), rows + 1) << text;
  for (const std::string& line : lines) EXPECT_LE(ColumnsOf(line), columns) << line;
}

TEST(Summary, SummaryOfTwoClassesIsExact) {
  EXPECT_EQ(SummaryText(Report(2, 50, "kind")),
            "cnnA\n"
            "test accuracy  99.0 %, loss 0.4321, 100 images\n"
            "best accuracy  86.0 % in epoch 7\n"
            "trained        10 epochs, 31250 steps of 16 in micro-batches of 8\n"
            "workers        3 on 1 node, 2500 images/s\n"
            "took           3 min 20 s, of which 3 min 00 s training\n"
            "\n"
            "rows actual, columns predicted; figures in percent\n"
            "           0  1  recall   prec.      F1\n"
            " 0 kind_0 50  .   100.0    98.0    99.0\n"
            " 1 kind_1  1 49    98.0   100.0    99.0\n");
}

TEST(Summary, ClassWithoutTestImagesHasNoFigures) {
  RunReport report = Report(2, 50, "kind");
  report.matrix = ConfusionMatrix({40, 10, 0, 0});
  EXPECT_THAT(SummaryText(report), HasSubstr(" 0 kind_0 40 10    80.0   100.0    88.9\n"
                                             " 1 kind_1  .  .               no images\n"));
  RunReport narrow = Report(20, 5000);
  narrow.matrix = ConfusionMatrix(20);
  for (int c = 1; c < 20; ++c) narrow.matrix.Add(c, c, 5000);
  ExpectFits(SummaryText(narrow), 80, 30);
  EXPECT_THAT(SummaryText(narrow), HasSubstr("no images\n"));
}

TEST(Summary, TenClassesOfAThousandFitAScreen) {
  const std::string text = SummaryText(Report(10, 1000));
  ExpectFits(text, 80, 24);
  EXPECT_THAT(text, HasSubstr(" 9 class_9"));
  EXPECT_THAT(text, HasSubstr(" 991"));
  EXPECT_THAT(text, Not(HasSubstr("percent of the row")));
  ExpectFits(SummaryText(Report(10, 1000), 71), 71, 24);  // after mtrun's prefix
}

TEST(Summary, TwentyClassesFitEightyColumnsInPercent) {
  const std::string text = SummaryText(Report(20, 5000, "a_class_with_a_long_name"));
  ExpectFits(text, 80, 30);
  EXPECT_THAT(text, HasSubstr("percent of the row"));
  EXPECT_THAT(text, HasSubstr("\n19 "));
}

TEST(Summary, WorstOfManyClassesAreNamed) {
  const std::string text = SummaryText(Report(100, 200, "a_class_with_a_very_long_name_indeed"));
  ExpectFits(text, 80, 32);
  EXPECT_THAT(text, HasSubstr("\nthe most frequent confusions\n"));
  EXPECT_THAT(text, HasSubstr("the 10 worst of 100 classes"));
  EXPECT_THAT(text, Not(HasSubstr("rows actual")));
}

TEST(Summary, ReportsNoOneVersusRestAccuracy) {
  const std::string text = SummaryText(Report(10, 100));
  EXPECT_EQ(text.rfind("accuracy"), text.find("best accuracy") + 5) << "of the whole alone: " << text;
}

TEST(Summary, TaskWithoutClassesShowsTheLoss) {
  RunReport report = Report(2, 10);
  report.class_names.clear();
  report.best_loss = 0.4;
  const std::string text = SummaryText(report);
  EXPECT_THAT(text, HasSubstr("test loss      0.4321\nbest loss      0.4000 in epoch 7\n"));
  ExpectFits(text, 80, 6);
}

TEST(Summary, NamesTheCriterionOfTheBestEpoch) {
  RunReport report = Report(2, 10);
  report.chosen_by_validation = true;
  EXPECT_THAT(SummaryText(report), HasSubstr("in epoch 7, by validation; the final weights were tested\n"));
  report.tested_epoch = 7;
  EXPECT_THAT(SummaryText(report), HasSubstr("in epoch 7, by validation: its weights were tested\n"));
}

}  // namespace
}  // namespace mtrun::trainers
