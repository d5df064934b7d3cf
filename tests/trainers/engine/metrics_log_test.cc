#include "trainers/engine/metrics_log.h"

#include <chrono>
#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

#include "nlohmann/json.hpp"

namespace mtrun::engine {
namespace {

class MetricsLogTest : public ::testing::Test {
 protected:
  MetricsLogTest() : folder_(*MakeTemporaryFolder("mtrun_metrics_")), path_(folder_ + "/metrics.jsonl") {}
  ~MetricsLogTest() override { std::filesystem::remove_all(folder_); }
  std::string Contents() const { return *ReadFile(path_); }

  const std::string folder_, path_;
};

TEST(MetricsLines, AStepKeepsEveryDigit) {
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

TEST(MetricsLines, WhatIsNotFiniteIsNull) {
  EXPECT_TRUE(nlohmann::json::parse(ToLine(EvalRecord{.epoch = 1, .test_loss = std::nan("")}))["test_loss"]
                  .is_null());
}

TEST_F(MetricsLogTest, StartsAnewAndFlushesAboutOnceASecond) {
  auto first = MetricsLog::Create(path_);
  ASSERT_TRUE(first.ok()) << first.status();
  const TimePoint start{std::chrono::hours(1)};
  ASSERT_TRUE(first->Write(StepRecord{.step = 0}, start).ok());
  const std::string one = Contents();
  EXPECT_EQ(one, ToLine(StepRecord{.step = 0}));
  ASSERT_TRUE(first->Write(StepRecord{.step = 1}, start + std::chrono::milliseconds(900)).ok());
  EXPECT_EQ(Contents(), one);
  ASSERT_TRUE(first->Write(StepRecord{.step = 2}, start + std::chrono::milliseconds(1000)).ok());
  EXPECT_EQ(Contents(), one + ToLine(StepRecord{.step = 1}) + ToLine(StepRecord{.step = 2}));
  ASSERT_TRUE(MetricsLog::Create(path_).ok());
  EXPECT_EQ(Contents(), "");
}

TEST_F(MetricsLogTest, EvaluationsAndTheEndFlush) {
  {
    auto log = MetricsLog::Create(path_);
    ASSERT_TRUE(log.ok());
    ASSERT_TRUE(log->Write(EvalRecord{.epoch = 1}).ok());
    EXPECT_EQ(Contents(), ToLine(EvalRecord{.epoch = 1}));
    const TimePoint start{std::chrono::hours(1)};
    ASSERT_TRUE(log->Write(StepRecord{.step = 8}, start).ok());
    ASSERT_TRUE(log->Write(StepRecord{.step = 9}, start).ok());
  }
  EXPECT_NE(Contents().find("\"step\":9"), std::string::npos);
}

TEST_F(MetricsLogTest, AMissingFolderIsNamed) {
  const auto log = MetricsLog::Create(folder_ + "/none/metrics.jsonl");
  EXPECT_NE(log.status().message().find(folder_ + "/none/metrics.jsonl"), absl::string_view::npos);
}

}  // namespace
}  // namespace mtrun::engine
