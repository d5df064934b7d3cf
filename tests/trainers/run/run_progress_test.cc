#include "trainers/run/records/run_progress.h"

#include <cmath>
#include <limits>
#include <set>

#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

RunProgress Example() {
  RunProgress p;
  p.samples = 4800;
  p.sums = {.loss = 0.1 + 0.2, .correct = 7, .samples = 80, .seconds = 1.5};
  p.seconds = 12.25;
  p.saving = 0.75;
  p.history = {{.steps = 60, .epoch = 1, .train_loss = 2.3, .test_loss = 1.0 / 3, .test_accuracy = 0.4},
               {.steps = 120, .epoch = 2, .classified = false},
               {.steps = 180, .epoch = 3, .test_top5 = 2.0 / 3}};
  p.confusion = {1, 2, 3, 4};
  p.finished = true;
  p.schedule_steps = 1800;
  p.threads = 4;
  p.machines = {"A", "B"};
  p.last_step = FinishedStep{.record = {.step = 179,
                                        .epoch = 3,
                                        .loss = 0.1 + 0.2,
                                        .learning_rate = 0.05,
                                        .samples = 80,
                                        .seconds = 0.125},
                             .generation = 4,
                             .world = 2,
                             .gathered = {0xfedcba9876543210, 80},
                             .correct = 7};
  return p;
}

TEST(RunProgressTest, RoundTripsExactly) {
  const auto back = RunProgressFromJson(nlohmann::json::parse(ToJson(Example()).dump()));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, Example());
}

TEST(RunProgressTest, ScheduleIsOptionalForEarlierReleases) {
  nlohmann::json earlier = ToJson(Example());
  earlier.erase("schedule_steps");
  earlier.erase("threads");
  earlier.erase("machines");
  const auto back = RunProgressFromJson(earlier);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->schedule_steps, 0);
  EXPECT_EQ(back->threads, 0);
  EXPECT_TRUE(back->machines.empty());
}

TEST(RunProgressTest, NonFiniteNumbersAreReadBackAsNan) {
  RunProgress p = Example();
  p.sums.loss = std::numeric_limits<double>::infinity();
  const auto back = RunProgressFromJson(nlohmann::json::parse(ToJson(p).dump()));
  ASSERT_TRUE(back.ok());
  EXPECT_TRUE(std::isnan(back->sums.loss));
}

TEST(RunProgressTest, EveryFieldIsRequiredAndTyped) {
  const nlohmann::json good = ToJson(Example());
  const nlohmann::json flat = good.flatten();
  for (const auto& item : flat.items()) {
    nlohmann::json bad = flat;
    bad[item.key()] = item.value().is_string() ? nlohmann::json(7) : nlohmann::json("text");
    EXPECT_FALSE(RunProgressFromJson(bad.unflatten()).ok()) << item.key();
  }
  for (const auto& item : good.items()) {
    nlohmann::json bad = good;
    bad.erase(item.key());
    const std::set<std::string> added = {"schedule_steps", "threads", "machines", "last_step"};
    if (added.contains(item.key())) continue;
    EXPECT_FALSE(RunProgressFromJson(bad).ok()) << item.key();
  }
  nlohmann::json bad = good;
  bad["confusion"] = {1, 2, 3};
  EXPECT_FALSE(RunProgressFromJson(bad).ok());
  bad["confusion"] = {~0ULL};
  EXPECT_FALSE(RunProgressFromJson(bad).ok()) << "a count that an int64 cannot hold";
  EXPECT_FALSE(RunProgressFromJson(nlohmann::json()).ok());
}

TEST(PerSecond, IsZeroWithoutTime) {
  EXPECT_EQ(PerSecond(10, 4), 2.5);
  for (const double none : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_EQ(PerSecond(10, none), 0) << none;
}

}  // namespace
}  // namespace mtrun::trainers
