#include "trainers/program/trainers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

constexpr Trainer kTrainers[] = {{"small", nullptr}, {"large", nullptr}};

TEST(Trainers, LinkNameChoosesTheTrainer) {
  EXPECT_EQ(FindTrainer(kTrainers, "large")->name, "large");
  EXPECT_EQ(FindTrainer(kTrainers, "./small")->name, "small");
  EXPECT_EQ(FindTrainer(kTrainers, "/opt/small/large")->name, "large");
}

TEST(Trainers, UnknownNameListsTheTrainers) {
  for (const char* command : {"", "trainer", "small/", "/opt/small2"}) {
    const auto none = FindTrainer(kTrainers, command);
    EXPECT_TRUE(absl::IsNotFound(none.status())) << command;
    EXPECT_THAT(std::string(none.status().message()), ::testing::HasSubstr("small, large"));
  }
}

}  // namespace
}  // namespace mtrun::trainers
