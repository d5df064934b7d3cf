#include "trainers/engine/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::engine {
namespace {

using ::testing::HasSubstr;

const EnvironmentMap kByHand = {
    {"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}};

EnvironmentMap With(EnvironmentMap environment, const std::string& name, const std::string& value) {
  environment[name] = value;
  return environment;
}

TEST(Membership, WithoutALauncherAWorkerIsAlone) {
  EXPECT_EQ(LaunchOf({}), Launch::kAlone);
  EXPECT_EQ(*ReadAssignment({}), Assignment{});
  EXPECT_EQ(*ConfiguredWorld({}), 1);
  const auto team = Team::Join({});
  ASSERT_TRUE(team.ok()) << team.status();
  EXPECT_FALSE((*team)->group());
  (*team)->ReportProgress(1, 1, 1);
  EXPECT_TRUE((*team)->ReportDone(1).ok());
}

TEST(Membership, ByHandFourVariablesAreEnough) {
  EXPECT_EQ(LaunchOf(kByHand), Launch::kByHand);
  EXPECT_EQ(*ReadAssignment(kByHand), (Assignment{.rank = 2, .world_size = 4}));
  EXPECT_EQ(*ConfiguredWorld(kByHand), 4);
}

TEST(Membership, MtrunSaysMore) {
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

TEST(Membership, WhatIsMalformedIsNamed) {
  EXPECT_THAT(std::string(ReadAssignment(With(kByHand, "RANK", "4")).status().message()), HasSubstr("RANK"));
  EXPECT_THAT(
      std::string(ConfiguredWorld(With(kByHand, "MTRUN_CONFIGURED_WORLD", "many")).status().message()),
      HasSubstr("MTRUN_CONFIGURED_WORLD"));
  EXPECT_THAT(std::string(Team::Join(With(kByHand, "MASTER_PORT", "0")).status().message()),
              HasSubstr("MASTER_PORT"));
}

TEST(Membership, AnAgentThatIsNotThereIsNamed) {
  const auto team = Team::Join(With(kByHand, "MTRUN_SOCKET", "/nonexistent/socket"));
  EXPECT_THAT(std::string(team.status().message()), HasSubstr("/nonexistent/socket"));
}

}  // namespace
}  // namespace mtrun::engine
