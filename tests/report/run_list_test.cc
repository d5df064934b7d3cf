#include "report/run_list.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::report {
namespace {

using ::testing::HasSubstr;

ListedRun Example(const std::string& rate, double accuracy, double age) {
  ListedRun listed{.folder = "runs/" + rate, .run = {}, .age = age};
  listed.run.program = "cnnA";
  listed.run.settings = {{"epochs", "4"}, {"learning_rate", rate}, {"model_folder", rate}};
  listed.run.epochs = {
      {.epoch = 1,
       .steps = 10,
       .train_loss = 2.5,
       .test_loss = 2,
       .train_accuracy = 0.25,
       .test_accuracy = accuracy},
      {.epoch = 2, .steps = 20, .train_loss = 1.5, .test_loss = 1.75, .seconds = 3, .validation = true}};
  return listed;
}

TEST(RunList, HasTheYoungestFirstAndTheSettingsThatDiffer) {
  ListedRun complete = Example("0.1", 0.5, 7200);
  complete.run.result = Result{.best_accuracy = 0.625};
  EXPECT_EQ(ListText({complete, Example("0.01", 0.25, 90)}),
            "run        best    state         age   settings that differ\n"
            "runs/0.01  25.0 %  epoch 2 of 4  90 s  learning_rate=0.01\n"
            "runs/0.1   62.5 %  complete      2 h   learning_rate=0.1\n");
}

TEST(RunList, ShowsRunsThatHaveLittle) {
  ListedRun fresh{.folder = "a\x1b[2J", .run = {}, .age = 1e6};
  EXPECT_THAT(ListText({fresh}), HasSubstr("a\\x1b[2J  -     no step  12 days\n"));
  fresh.run.steps = {{.step = 6}};
  EXPECT_THAT(ListText({fresh}), HasSubstr("step 7"));
  fresh.run.epochs = {{.epoch = 1, .test_loss = 0.5}};
  EXPECT_THAT(ListText({fresh}), HasSubstr("loss 0.5  epoch 1 "));
}

TEST(RunList, ComparesSettingsAndFigures) {
  ListedRun complete = Example("0.1", 0.5, 0);
  complete.run.result =
      Result{.test_accuracy = 0.5, .test_loss = 1.25, .best_epoch = 3, .steps = 40, .world = 2};
  const std::string text = CompareText({complete, Example("0.01", 0.25, 0)});
  EXPECT_THAT(text, HasSubstr("learning_rate  0.1       0.01\n"));
  EXPECT_THAT(text, HasSubstr("state          complete  epoch 2 of 4\n"));
  EXPECT_THAT(text, HasSubstr("test loss      1.2500    -\n"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("model_folder")));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("epochs ")));
}

TEST(RunList, EpochsAreLinesOfCsv) {
  EXPECT_EQ(EpochsCsv(Example("0.1", 0.5, 0).run),
            "epoch,steps,train_loss,train_accuracy,test_loss,test_accuracy,seconds,evaluated_on\n"
            "1,10,2.5,0.25,2,0.5,0,test\n"
            "2,20,1.5,,1.75,,3,validation\n");
}

}  // namespace
}  // namespace mtrun::report
