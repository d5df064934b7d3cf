#include "trainers/input/residency.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kGib = int64_t{1} << 30;

ResidencyNeeds GpuWith(int64_t images, int64_t free, double share = 0.5) {
  return {.cuda = true, .images = images, .free = free, .share = share};
}

TEST(Residency, AutoKeepsWhatFitsIntoTheShareOfAGpu) {
  EXPECT_TRUE(ChooseResidency("auto", GpuWith(4 * kGib, 8 * kGib))->resident);
  EXPECT_FALSE(ChooseResidency("auto", GpuWith(4 * kGib + 1, 8 * kGib))->resident);
  EXPECT_TRUE(ChooseResidency("auto", GpuWith(6 * kGib, 8 * kGib, 0.75))->resident);
  EXPECT_FALSE(ChooseResidency("auto", {.cuda = false, .images = 1, .free = 0})->resident);
  EXPECT_EQ(ChooseResidency("auto", GpuWith(3 * kGib, 4 * kGib))->why,
            "auto: 3 GiB of images, 4 GiB free, more than resident_share");
}

TEST(Residency, OnAndOffOverrideAuto) {
  EXPECT_FALSE(ChooseResidency("off", GpuWith(1, 8 * kGib))->resident);
  EXPECT_TRUE(ChooseResidency("on", GpuWith(7 * kGib, 8 * kGib))->resident);
  EXPECT_TRUE(ChooseResidency("on", {.cuda = false, .images = kGib, .free = 0})->resident);
}

TEST(Residency, SetThatIsNeverCompleteIsReadStepByStep) {
  ResidencyNeeds needs = GpuWith(1 * kGib, 8 * kGib);
  needs.stay = false;
  const absl::StatusOr<Residency> chosen = ChooseResidency("auto", needs);
  EXPECT_FALSE(chosen->resident);
  EXPECT_THAT(chosen->why, HasSubstr("the cache (--cache_gib) is smaller than the data set"));
  for (const bool cuda : {true, false}) {
    needs.cuda = cuda;
    EXPECT_THAT(std::string(ChooseResidency("on", needs).status().message()), HasSubstr("--resident off"));
    EXPECT_FALSE(ChooseResidency("off", needs)->resident);
  }
}

TEST(Residency, MoreThanTheGpuHoldsIsRefused) {
  const auto status = ChooseResidency("on", GpuWith(9 * kGib, 8 * kGib)).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--resident on: 9 GiB of images, 8 GiB free"));
}

}  // namespace
}  // namespace mtrun::trainers
