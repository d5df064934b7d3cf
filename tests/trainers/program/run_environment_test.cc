#include "trainers/program/run_environment.h"

#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

using ::testing::HasSubstr;

constexpr char kPlan[] = "rank=1 step=20 at=backward do=kill";

TEST(RunEnvironment, DefaultsAreEmpty) {
  const auto found = ReadRunEnvironment({});
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(found->faults.empty());
  EXPECT_EQ(found->pace, Duration::zero());
  EXPECT_EQ(found->grace, Duration::zero());
}

TEST(RunEnvironment, FaultsApplyOnlyToTheJobsFirstProcesses) {
  EXPECT_EQ(ReadRunEnvironment({{"MTRUN_FAULTS", kPlan}})->faults.size(), 1u);
  for (const char* first : {"0.7", "1.9"})
    EXPECT_EQ(ReadRunEnvironment({{"MTRUN_FAULTS", kPlan}, {"MTRUN_GENERATION", first}})->faults.size(), 1u);
  for (const char* later : {"2.9", "10.1"})
    EXPECT_TRUE(ReadRunEnvironment({{"MTRUN_FAULTS", kPlan}, {"MTRUN_GENERATION", later}})->faults.empty());
}

TEST(RunEnvironment, SecondsAreRead) {
  const auto found = ReadRunEnvironment({{"MTRUN_PACE", "0.25"}, {"MTRUN_SHUTDOWN_TIMEOUT", "30"}});
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->pace, std::chrono::milliseconds(250));
  EXPECT_EQ(found->grace, std::chrono::seconds(30));
}

TEST(RunEnvironment, MalformedVariableIsNamed) {
  for (const char* name : {"MTRUN_PACE", "MTRUN_SHUTDOWN_TIMEOUT", "MTRUN_FAULTS"}) {
    for (const char* text : {"soon", "-1", "1e9"}) {
      const auto found = ReadRunEnvironment({{name, text}});
      EXPECT_TRUE(absl::IsInvalidArgument(found.status())) << name << "=" << text;
      EXPECT_THAT(std::string(found.status().message()), HasSubstr(name));
    }
  }
}

}  // namespace
}  // namespace mtrun::trainers
