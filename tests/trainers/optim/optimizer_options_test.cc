#include "trainers/optim/optimizer_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

TEST(OptimizerOptions, ParsesItsNames) {
  EXPECT_EQ(*ParseOptimizerKind("adamw"), OptimizerOptions::Kind::kAdamW);
  EXPECT_THAT(std::string(ParseOptimizerKind("lion").status().message()),
              ::testing::HasSubstr("sgd, adam, adamw"));
}

/// Checkpoints store the optimizer's number.
TEST(OptimizerOptions, KeepsItsNumbers) {
  EXPECT_THAT(OptimizerNames(), ::testing::ElementsAre("sgd", "adam", "adamw"));
  for (size_t i = 0; i < OptimizerNames().size(); ++i)
    EXPECT_EQ(static_cast<size_t>(*ParseOptimizerKind(OptimizerNames()[i])), i);
}

}  // namespace
}  // namespace mtrun::trainers
