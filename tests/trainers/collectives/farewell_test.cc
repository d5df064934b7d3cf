#include "trainers/collectives/farewell.h"

#include <gtest/gtest.h>

namespace mtrun::collectives {
namespace {

TEST(FarewellTest, RoundTripsAndWaitsForTheWholeMessage) {
  EXPECT_TRUE(DecodeFarewell(Encode(Farewell{}))->orderly);
  const std::string bytes = Encode(Farewell{.orderly = false, .why = "rank 2 died"});
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(DecodeFarewell(bytes.substr(0, size)).has_value()) << size;
  const auto farewell = DecodeFarewell(bytes);
  ASSERT_TRUE(farewell.has_value());
  EXPECT_FALSE(farewell->orderly);
  EXPECT_EQ(farewell->why, "rank 2 died");
}

TEST(FarewellTest, LongReasonsAreCut) {
  const auto farewell = DecodeFarewell(Encode(Farewell{.orderly = false, .why = std::string(5000, 'x')}));
  ASSERT_TRUE(farewell.has_value());
  EXPECT_EQ(farewell->why, std::string(1000, 'x'));
}

}  // namespace
}  // namespace mtrun::collectives
