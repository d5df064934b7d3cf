#include "trainers/run/records/metrics_log.h"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "nlohmann/json.hpp"

namespace mtrun::trainers {
namespace {

class MetricsLogTest : public ::testing::Test {
 protected:
  MetricsLogTest() : folder_(*MakeTemporaryFolder("mtrun_metrics_")), path_(folder_ + "/metrics.jsonl") {}
  ~MetricsLogTest() override { std::filesystem::remove_all(folder_); }
  std::string Contents() const { return *ReadFile(path_); }

  const std::string folder_, path_;
};

TEST(MetricsLines, StepKeepsEveryDigit) {
  const double loss = 2.3025850929940459, rate = 0.1 / 3;
  const auto json = nlohmann::json::parse(ToLine(StepRecord{
      .step = 7, .epoch = 2, .loss = loss, .learning_rate = rate, .samples = 16, .seconds = 0.25}));
  EXPECT_EQ(json["step"], 7);
  EXPECT_EQ(json["epoch"], 2);
  EXPECT_EQ(json["loss"].get<double>(), loss);
  EXPECT_EQ(json["lr"].get<double>(), rate);
  EXPECT_EQ(json["samples"], 16);
  EXPECT_EQ(json["seconds"], 0.25);
}

TEST(MetricsLines, NonFiniteNumbersAreNull) {
  EXPECT_TRUE(nlohmann::json::accept(ToLine(EvalRecord{.epoch = 1, .seconds = std::nan("")})));
  EXPECT_TRUE(nlohmann::json::parse(ToLine(EvalRecord{.epoch = 1, .test_loss = std::nan("")}))["test_loss"]
                  .is_null());
}

TEST(MetricsLines, SkippedStepIsMarkedAndTaskWithoutClassesHasNoAccuracy) {
  EXPECT_EQ(nlohmann::json::parse(ToLine(StepRecord{})).count("skipped"), 0u);
  EXPECT_EQ(nlohmann::json::parse(ToLine(StepRecord{.skipped = true}))["skipped"], true);
  const auto json =
      nlohmann::json::parse(ToLine(EvalRecord{.epoch = 1, .test_loss = 2, .classified = false}));
  EXPECT_EQ(json["test_loss"], 2);
  EXPECT_EQ(json.count("test_accuracy"), 0u);
  EXPECT_EQ(json.count("train_accuracy"), 0u);
}

TEST(MetricsLines, TopFiveIsNamedByTheEvaluatedSplit) {
  const EvalRecord test{.epoch = 1, .test_top5 = 0.9}, val{.epoch = 1, .test_top5 = 0.9, .validation = true};
  EXPECT_EQ(nlohmann::json::parse(ToLine(test))["test_top5"], 0.9);
  EXPECT_EQ(nlohmann::json::parse(ToLine(val))["val_top5"], 0.9);
  EXPECT_EQ(nlohmann::json::parse(ToLine(val)).count("test_top5"), 0u);
  EXPECT_EQ(nlohmann::json::parse(ToLine(EvalRecord{.epoch = 1})).count("test_top5"), 0u);
}

TEST(MetricsLines, SaveReportsHowLongStepsStalled) {
  EXPECT_EQ(ToLine(SaveRecord{.steps = 938, .bytes = 134087520, .stall = 0.021}),
            "{\"save\":938,\"bytes\":134087520,\"stall\":0.021}\n");
}

TEST_F(MetricsLogTest, FlushesAboutOnceASecond) {
  auto first = MetricsLog::Continue(path_, 0);
  ASSERT_TRUE(first.ok()) << first.status();
  const TimePoint start{std::chrono::hours(1)};
  ASSERT_TRUE(first->Write(StepRecord{.step = 0}, start).ok());
  const std::string one = Contents();
  EXPECT_EQ(one, ToLine(StepRecord{.step = 0}));
  ASSERT_TRUE(first->Write(StepRecord{.step = 1}, start + std::chrono::milliseconds(900)).ok());
  EXPECT_EQ(Contents(), one);
  ASSERT_TRUE(first->Write(StepRecord{.step = 2}, start + std::chrono::milliseconds(1000)).ok());
  EXPECT_EQ(Contents(), one + ToLine(StepRecord{.step = 1}) + ToLine(StepRecord{.step = 2}));
}

TEST_F(MetricsLogTest, ContinuesAfterAnotherWriter) {
  const TimePoint start{std::chrono::hours(1)};
  {
    auto log = MetricsLog::Continue(path_, 0);
    ASSERT_TRUE(log.ok());
    EXPECT_EQ(log->next_step(), 0);
    for (int64_t step = 0; step < 5; ++step) ASSERT_TRUE(log->Write(StepRecord{.step = step}, start).ok());
  }
  const std::string five = Contents();
  {
    auto log = MetricsLog::Continue(path_, 5);
    ASSERT_TRUE(log.ok());
    EXPECT_EQ(log->next_step(), 5);
  }
  EXPECT_EQ(Contents(), five) << "nothing was taken back";
  {
    auto log = MetricsLog::Continue(path_, 3);
    ASSERT_TRUE(log.ok());
    EXPECT_EQ(log->next_step(), 3);
  }
  EXPECT_EQ(Contents(), five + "{\"rewind\":3}\n");
}

TEST_F(MetricsLogTest, UnfinishedLastLineIsTerminated) {
  std::ofstream(path_) << ToLine(StepRecord{.step = 0}) << R"({"step":1,"ep)";
  {
    auto log = MetricsLog::Continue(path_, 1);
    ASSERT_TRUE(log.ok());
    EXPECT_EQ(log->next_step(), 1);
    ASSERT_TRUE(log->Write(StepRecord{.step = 1}, TimePoint{std::chrono::hours(1)}).ok());
  }
  EXPECT_EQ(Contents(), ToLine(StepRecord{.step = 0}) + "{\"step\":1,\"ep\n" + ToLine(StepRecord{.step = 1}));
}

TEST_F(MetricsLogTest, CompleteLastLineWithoutNewlineCounts) {
  const std::string two = ToLine(StepRecord{.step = 0}) + ToLine(StepRecord{.step = 1});
  std::ofstream(path_) << two.substr(0, two.size() - 1);
  {
    auto log = MetricsLog::Continue(path_, 2);
    ASSERT_TRUE(log.ok());
    EXPECT_EQ(log->next_step(), 2);
  }
  EXPECT_EQ(Contents(), two);
}

/// In jobs of a thousand nodes the last lines may all describe generations that achieved nothing.
TEST_F(MetricsLogTest, LongGenerationLinesDoNotHideTheLastStep) {
  GenerationRecord generation{.generation = 1, .steps = 10, .world = 1000, .members = {}, .why = ""};
  for (int node = 0; node < 1000; ++node) generation.members.push_back({std::string(40, 'n'), 1});
  {
    auto log = MetricsLog::Continue(path_, 0);
    ASSERT_TRUE(log.ok());
    for (int64_t step = 0; step < 10; ++step)
      ASSERT_TRUE(log->Write(StepRecord{.step = step}, TimePoint{std::chrono::hours(1)}).ok());
    for (int i = 0; i < 8; ++i) ASSERT_TRUE(log->Write(generation).ok());
  }
  EXPECT_EQ(MetricsLog::Continue(path_, 10)->next_step(), 10);
  const auto log = MetricsLog::Continue(path_, 5);
  ASSERT_TRUE(log.ok());
  EXPECT_EQ(log->next_step(), 5);
}

/// There is no such line in reach, and no complete line of a generation.
TEST_F(MetricsLogTest, LineOfAnyLengthLeavesOthersInReach) {
  std::ofstream(path_) << ToLine(StepRecord{.step = 0}) << std::string(300 << 10, 'x') << "\n"
                       << ToLine(StepRecord{.step = 1}) << std::string(127 << 10, 'x') << "\n";
  EXPECT_EQ(MetricsLog::Continue(path_, 2)->next_step(), 2);
}

TEST_F(MetricsLogTest, EvaluationsAndTheEndFlush) {
  {
    auto log = MetricsLog::Continue(path_, 0);
    ASSERT_TRUE(log.ok());
    ASSERT_TRUE(log->Write(EvalRecord{.epoch = 1}).ok());
    EXPECT_EQ(Contents(), ToLine(EvalRecord{.epoch = 1}));
    const TimePoint start{std::chrono::hours(1)};
    ASSERT_TRUE(log->Write(StepRecord{.step = 8}, start).ok());
    ASSERT_TRUE(log->Write(StepRecord{.step = 9}, start).ok());
  }
  EXPECT_NE(Contents().find("\"step\":9"), std::string::npos);
}

TEST_F(MetricsLogTest, MissingFolderIsNamed) {
  const auto log = MetricsLog::Continue(folder_ + "/none/metrics.jsonl", 0);
  EXPECT_NE(log.status().message().find(folder_ + "/none/metrics.jsonl"), absl::string_view::npos);
}

}  // namespace
}  // namespace mtrun::trainers
