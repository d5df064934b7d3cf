#include "trainers/engine/optimizer_options.h"

#include <gtest/gtest.h>

namespace mtrun::engine {
namespace {

TEST(OptimizerOptions, ParsesItsNames) {
  EXPECT_EQ(*ParseOptimizerKind("adamw"), OptimizerOptions::Kind::kAdamW);
  EXPECT_FALSE(ParseOptimizerKind("lion").ok());
}

}  // namespace
}  // namespace mtrun::engine
