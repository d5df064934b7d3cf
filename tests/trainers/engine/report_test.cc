#include "trainers/engine/report.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/posix.h"

namespace mtrun::engine {
namespace {

using ::testing::HasSubstr;

RunReport Example() {
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

TEST(Report, HasTheLineThatScriptsLookFor) {
  EXPECT_THAT(ReportText(Example()), HasSubstr("\ntest accuracy  85.3 %\n"));
}

TEST(Report, TellsTheWholeStoryInAlignedColumns) {
  EXPECT_EQ(ReportText(Example()),
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
            "class  accuracy  precision   recall       f1  specificity\n"
            "plane    85.3 %     82.3 %   90.0 %   86.0 %       80.6 %\n"
            "car      85.3 %     89.0 %   80.6 %   84.6 %       90.0 %\n"
            "\n"
            "confusion matrix (rows actual, columns predicted)\n"
            "        plane     car\n"
            "plane     450      50\n"
            "car        97     403\n");
}

TEST(Report, JsonHoldsFiguresAndHistory) {
  const nlohmann::json json = ReportJson(Example());
  EXPECT_EQ(json["test_accuracy"], 0.853);
  EXPECT_EQ(json["confusion_rows_actual"], (std::vector<std::vector<int>>{{450, 50}, {97, 403}}));
  EXPECT_EQ(json["per_class"][0]["recall"], 0.9);
  EXPECT_EQ(json["history"][0]["test_accuracy"], 0.5);
}

TEST(Report, AnEpochIsOneLine) {
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
}

TEST(Report, FilesAreWritten) {
  const std::string folder = *MakeTemporaryFolder("mtrun_report_");
  ASSERT_TRUE(WriteReport(Example(), folder).ok());
  EXPECT_EQ(*ReadFile(folder + "/report.txt"), ReportText(Example()));
  EXPECT_EQ(nlohmann::json::parse(*ReadFile(folder + "/report.json")), ReportJson(Example()));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace mtrun::engine
