#include "trainers/run/records/report.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/posix.h"

namespace mtrun::trainers {
namespace {

using ::testing::HasSubstr;

RunReport ExampleReport() {
  RunReport report;
  report.program = "cnnA";
  report.class_names = {"plane", "car"};
  report.matrix = ConfusionMatrix({450, 50, 97, 403});
  report.test_loss = 0.41234;
  report.best_accuracy = 0.86;
  report.best_epoch = 3;
  report.epochs = 4;
  report.steps = 400;
  report.global_batch = 16;
  report.micro_batch = 8;
  report.world_size = 2;
  report.seconds = 63.14;
  report.training_seconds = 58;
  report.images_per_second = 8612.3;
  report.history = {EvalRecord{.steps = 100, .epoch = 1, .test_accuracy = 0.5}};
  return report;
}

/// A run whose last epoch was cut short by --max_steps continues, and evaluates that epoch again at its end.
TEST(Report, BestStepIsThatOfTheBestEvaluation) {
  RunReport report;
  EXPECT_EQ(report.BestSteps(), std::nullopt);
  EXPECT_TRUE(report.Add({.steps = 10, .epoch = 3, .test_accuracy = 0.5}));
  EXPECT_TRUE(report.Add({.steps = 12, .epoch = 3, .test_accuracy = 0.6}));
  EXPECT_FALSE(report.Add({.steps = 16, .epoch = 4, .test_accuracy = 0.6}));
  EXPECT_EQ(report.BestSteps(), 12);
}

TEST(Report, EpochThatWasCutShortHasOneEntry) {
  RunReport report;
  report.Add({.steps = 10, .epoch = 2, .test_accuracy = 0.4, .seconds = 5});
  report.Add({.steps = 12, .epoch = 3, .test_accuracy = 0.6, .seconds = 1});
  report.Add({.steps = 15, .epoch = 3, .test_accuracy = 0.5, .seconds = 3});
  ASSERT_EQ(report.history.size(), 2u);
  EXPECT_EQ(report.history.back().steps, 15);
  EXPECT_EQ(report.training_seconds, 8);
  EXPECT_EQ(report.BestSteps(), 12) << "whose weights were kept";
  EXPECT_EQ(report.test_loss, report.history.back().test_loss);
}

TEST(Report, HasTheLineThatScriptsSearchFor) {
  EXPECT_THAT(ReportText(ExampleReport()), HasSubstr("\ntest accuracy  85.3 %\n"));
}

TEST(Report, ListsAllFiguresInAlignedColumns) {
  EXPECT_EQ(ReportText(ExampleReport()),
            "cnnA\n"
            "test accuracy  85.3 %\n"
            "best accuracy  86.0 % in epoch 3\n"
            "test loss      0.4123\n"
            "test images    1000\n"
            "epochs         4\n"
            "steps          400\n"
            "batch          16 in micro-batches of 8\n"
            "workers        2 on 1 node\n"
            "seconds        63.1, of which 58.0 training\n"
            "images/s       8612\n"
            "\n"
            "class   recall  precision       f1  specificity\n"
            "plane   90.0 %     82.3 %   86.0 %       80.6 %\n"
            "car     80.6 %     89.0 %   84.6 %       90.0 %\n"
            "\n"
            "confusion matrix (rows actual, columns predicted)\n"
            "        plane     car\n"
            "plane     450      50\n"
            "car        97     403\n");
}

TEST(Report, ClassWithoutTestImagesHasNoFigures) {
  RunReport report = ExampleReport();
  report.matrix = ConfusionMatrix({450, 50, 0, 0});
  EXPECT_THAT(ReportText(report),
              HasSubstr("plane   90.0 %    100.0 %   94.7 %        0.0 %\ncar    no images\n"));
  const nlohmann::json json = ReportJson(report)["per_class"];
  EXPECT_EQ(json[0]["images"], 500);
  EXPECT_EQ(json[0]["recall"], 0.9);
  EXPECT_EQ(json[1]["images"], 0);
  for (const char* figure : {"accuracy", "precision", "recall", "f1", "specificity"})
    EXPECT_TRUE(json[1][figure].is_null()) << figure;
}

TEST(Report, LongNamesArePrintedWholeOrAsNumbers) {
  RunReport few = ExampleReport();
  few.class_names = {"Ankle boot", "T-shirt/top"};
  EXPECT_THAT(ReportText(few), HasSubstr("              Ankle boot  T-shirt/top\n"
                                         "Ankle boot           450           50\n"));
  RunReport many;
  for (int c = 0; c < 12; ++c) many.class_names.push_back(c == 7 ? "aquarium fish" : "class");
  many.matrix = ConfusionMatrix(12);
  many.matrix.Add(7, 11, 12345);
  EXPECT_THAT(ReportText(many),
              HasSubstr("  7 aquarium fish      0      0      0      0      0      0      0"));
  EXPECT_THAT(ReportText(many), HasSubstr("                       0      1      2      3"));
}

TEST(Report, ConfusionsReplaceTheMatrixOfManyClasses) {
  RunReport report;
  report.matrix = ConfusionMatrix(kManyClasses);
  for (int c = 0; c < kManyClasses; ++c) {
    report.class_names.push_back("class_" + std::to_string(c));
    report.matrix.Add(c, c, 10);
  }
  report.matrix.Add(3, 4, 7);
  report.matrix.Add(9, 8, 2);
  report.test_top5 = 0.975;
  const std::string text = ReportText(report);
  EXPECT_THAT(text, HasSubstr("\ntop-5 accuracy  97.5 %\n"));
  EXPECT_THAT(text, HasSubstr("\nclass_20  100.0 %"));
  EXPECT_THAT(text, HasSubstr("actual     predicted  images\n"
                              "class_3    class_4         7\n"
                              "class_9    class_8         2\n"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("confusion matrix")));
  const nlohmann::json json = ReportJson(report);
  EXPECT_EQ(json["test_top5"], 0.975);
  EXPECT_EQ(json["worst_classes"].size(), static_cast<size_t>(kMaxNamed));
  EXPECT_EQ(json["worst_classes"][0], "class_3");
  EXPECT_EQ(json["confusions"][0]["images"], 7);
  EXPECT_EQ(json["confusion_rows_actual"].size(), static_cast<size_t>(kManyClasses));
}

TEST(Report, TaskWithoutClassesReportsLosses) {
  RunReport report;
  report.program = "diffusion";
  const auto record = [](int64_t epoch, double loss) {
    return EvalRecord{.epoch = epoch, .test_loss = loss, .classified = false};
  };
  EXPECT_TRUE(report.Add(record(1, 0.5)));
  EXPECT_TRUE(report.Add(record(2, 0.25)));
  EXPECT_FALSE(report.Add(record(3, 0.3)));
  const std::string text = ReportText(report);
  EXPECT_THAT(text, HasSubstr("test loss  0.3000\nbest loss  0.2500 in epoch 2\n"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("accuracy")));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("confusion")));
  EXPECT_EQ(ReportJson(report).count("test_accuracy"), 0u);
  EXPECT_EQ(EpochText(record(3, 0.3), 9, false), "epoch 3/9  train loss 0.0000  test loss 0.3000  0.0 s");
}

TEST(Report, BestIsTheHighestAccuracy) {
  RunReport report;
  EXPECT_TRUE(report.Add({.epoch = 1, .test_loss = 1, .test_accuracy = 0.5}));
  EXPECT_FALSE(report.Add({.epoch = 2, .test_loss = 0.5, .test_accuracy = 0.5}));
  EXPECT_TRUE(report.Add({.epoch = 3, .test_loss = 2, .test_accuracy = 0.6}));
  EXPECT_EQ(report.best_epoch, 3);
  EXPECT_EQ(report.best_accuracy, 0.6);
  EXPECT_EQ(report.test_loss, 2);
}

TEST(Report, JsonHoldsFiguresAndHistory) {
  const nlohmann::json json = ReportJson(ExampleReport());
  EXPECT_EQ(json["test_accuracy"], 0.853);
  EXPECT_EQ(json["confusion_rows_actual"], (std::vector<std::vector<int>>{{450, 50}, {97, 403}}));
  EXPECT_EQ(json["per_class"][0]["recall"], 0.9);
  EXPECT_EQ(json["history"][0]["test_accuracy"], 0.5);
}

TEST(Report, EpochIsOneLine) {
  const EvalRecord record{.steps = 100,
                          .epoch = 1,
                          .train_loss = 1.93,
                          .train_accuracy = 0.291,
                          .test_loss = 1.8,
                          .test_accuracy = 0.34,
                          .seconds = 5.21};
  EXPECT_EQ(
      EpochText(record, 10, true),
      "epoch 1/10  train loss 1.9300 accuracy 29.1 %  test loss 1.8000 accuracy 34.0 %  new best  5.2 s");
  EXPECT_EQ(EpochText(record, 10, true, 69),
            "epoch 1/10  train 1.930 29.1 %  test 1.800 34.0 %  best  5.2 s");
  EvalRecord chosen = record;
  chosen.validation = true;
  EXPECT_EQ(EpochText(chosen, 10, false, 60), "epoch 1/10  train 1.930 29.1 %  val 1.800 34.0 %  5.2 s");
}

TEST(Report, IsStaleAfterEpochsWithoutImprovement) {
  RunReport report;
  EXPECT_FALSE(report.IsStale(1)) << "no epoch has been evaluated";
  report.Add({.epoch = 1, .test_accuracy = 0.5});
  report.Add({.epoch = 2, .test_accuracy = 0.6});
  EXPECT_FALSE(report.IsStale(1));
  report.Add({.epoch = 3, .test_accuracy = 0.6});
  EXPECT_TRUE(report.IsStale(1));
  EXPECT_FALSE(report.IsStale(2));
  EXPECT_FALSE(report.IsStale(0)) << "never";
}

TEST(Report, ValidationIsDistinguishedFromTest) {
  RunReport report = ExampleReport();
  report.chosen_by_validation = true;
  report.tested_epoch = 3;
  EXPECT_THAT(ReportText(report), HasSubstr("best accuracy   86.0 % in epoch 3 on the validation images\n"));
  EXPECT_THAT(ReportText(report), HasSubstr("tested weights  of epoch 3\n"));
  EXPECT_EQ(ReportJson(report)["tested_epoch"], 3);
  EXPECT_TRUE(ReportJson(ExampleReport())["tested_epoch"].is_null());
}

TEST(Report, FilesAreWritten) {
  const std::string folder = *MakeTemporaryFolder("mtrun_report_");
  ASSERT_TRUE(WriteReport(ExampleReport(), folder).ok());
  EXPECT_EQ(*ReadFile(folder + "/report.txt"), ReportText(ExampleReport()));
  EXPECT_EQ(nlohmann::json::parse(*ReadFile(folder + "/report.json")), ReportJson(ExampleReport()));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace mtrun::trainers
