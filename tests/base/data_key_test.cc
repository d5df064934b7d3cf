#include "base/data_key.h"

#include "gtest/gtest.h"

namespace mtrun {
namespace {

const std::string kToken = "mtrun1-" + std::string(64, 'a');

TEST(DataKey, EachDerivedSecretDiffers) {
  const std::string key = DataKeyOf(kToken);
  EXPECT_EQ(key.size(), 64u);
  EXPECT_EQ(key, DataKeyOf(kToken));
  EXPECT_NE(key, DataKeyOf(kToken + "b"));
  EXPECT_NE(BearerOf(key, true), BearerOf(key, false));
  EXPECT_NE(BearerOf(key, true), key);
  EXPECT_NE(MetricsBearerOf(key, true), MetricsBearerOf(key, false));
  EXPECT_NE(MetricsBearerOf(key, true), BearerOf(key, true));
}

TEST(DataKey, VariablePrecedesTheToken) {
  EXPECT_EQ(*FindDataKey({{kDataKeyVariable, "k"}, {"MTRUN_TOKEN", kToken}}), "k");
  EXPECT_EQ(*FindDataKey({{"MTRUN_TOKEN", kToken}}), DataKeyOf(kToken));
  EXPECT_TRUE(absl::IsNotFound(FindDataKey({{"HOME", "/nonexistent"}}).status()));
}

}  // namespace
}  // namespace mtrun
