#include "trainers/run/loop/run_end.h"

#include <chrono>

#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

TEST(WaitsForDiskTest, LeavesAQuarterOfTheGrace) {
  const TimePoint told = TimePoint() + std::chrono::seconds(100);
  const Duration grace = std::chrono::seconds(20);
  EXPECT_TRUE(WaitsForDisk(told, grace, told));
  EXPECT_TRUE(WaitsForDisk(told, grace, told + std::chrono::milliseconds(14'999)));
  EXPECT_FALSE(WaitsForDisk(told, grace, told + std::chrono::seconds(15)));
  EXPECT_FALSE(WaitsForDisk(std::nullopt, grace, told)) << "it was not told to go";
  EXPECT_FALSE(WaitsForDisk(told, Duration::zero(), told)) << "SIGKILL may come at any time";
}

}  // namespace
}  // namespace mtrun::trainers
