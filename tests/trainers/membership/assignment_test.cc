#include "trainers/membership/assignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainers/membership/by_hand.h"

namespace mtrun::trainers {
namespace {

using ::testing::HasSubstr;

TEST(Assignment, WorkerWithoutALauncherIsAlone) {
  EXPECT_EQ(LaunchOf({}), Launch::kAlone);
  EXPECT_EQ(*ReadAssignment({}), Assignment{});
  EXPECT_EQ(*ConfiguredWorld({}), 1);
}

TEST(Assignment, FourVariablesSufficeForAManualStart) {
  EXPECT_EQ(LaunchOf(kByHand), Launch::kByHand);
  EXPECT_EQ(*ReadAssignment(kByHand), (Assignment{.rank = 2, .world_size = 4}));
  EXPECT_EQ(*ConfiguredWorld(kByHand), 4);
}

TEST(Assignment, MtrunSetsMoreVariables) {
  EnvironmentMap environment = kByHand;
  for (const auto& [name, value] : EnvironmentMap{{"LOCAL_RANK", "0"},
                                                  {"LOCAL_WORLD_SIZE", "2"},
                                                  {"GROUP_RANK", "1"},
                                                  {"GROUP_WORLD_SIZE", "2"},
                                                  {"MTRUN_SOCKET", "/run/x"},
                                                  {"MTRUN_CONFIGURED_WORLD", "8"}}) {
    environment[name] = value;
  }
  EXPECT_EQ(LaunchOf(environment), Launch::kMtrun);
  EXPECT_EQ(*ReadAssignment(environment),
            (Assignment{.rank = 2, .world_size = 4, .local_rank = 0, .local_world_size = 2, .nodes = 2}));
  EXPECT_EQ(*ConfiguredWorld(environment), 8);
}

TEST(Assignment, MalformedVariableIsNamed) {
  EXPECT_THAT(std::string(ReadAssignment(With(kByHand, "RANK", "4")).status().message()), HasSubstr("RANK"));
  EXPECT_THAT(
      std::string(ConfiguredWorld(With(kByHand, "MTRUN_CONFIGURED_WORLD", "many")).status().message()),
      HasSubstr("MTRUN_CONFIGURED_WORLD"));
}

TEST(Assignment, BrokenGroupMeansAnotherGeneration) {
  EXPECT_TRUE(MeansRegroup(absl::UnavailableError("lost rank 1")));
  EXPECT_TRUE(MeansRegroup(absl::AbortedError("the generation ended")));
  EXPECT_FALSE(MeansRegroup(absl::OkStatus()));
  EXPECT_FALSE(MeansRegroup(absl::FailedPreconditionError("another run")));
}

TEST(Assignment, JobWithTooManyWorkersForTheKeyValueStoreIsRefused) {
  EXPECT_TRUE(CheckFits(kMaxWorkersOfMtrun).ok());
  const absl::Status refused = CheckFits(kMaxWorkersOfMtrun + 1);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("at most 2000 workers, but this one has 2001"));
}

}  // namespace
}  // namespace mtrun::trainers
