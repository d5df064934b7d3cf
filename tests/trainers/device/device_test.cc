#include "trainers/device/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

using ::testing::HasSubstr;

TEST(Device, EachWorkerTakesTheGpuOfItsLocalRank) {
  const DeviceChoice cpu, second{true, 1};
  EXPECT_EQ(*ChooseDevice("auto", 0, 3, 4), cpu);
  EXPECT_EQ(*ChooseDevice("cpu", 8, 3, 4), cpu);
  EXPECT_EQ(*ChooseDevice("auto", 2, 1, 2), second);
  EXPECT_EQ(*ChooseDevice("cuda", 8, 1, 2), second);
  // With --virtual_local_rank each of many workers sees one GPU, and is number 0 to itself.
  EXPECT_EQ(*ChooseDevice("cuda", 1, 0, 8), (DeviceChoice{true, 0}));
}

TEST(Device, CudaThatIsNotThereIsSaid) {
  const auto none = ChooseDevice("cuda", 0, 0, 1);
  EXPECT_TRUE(absl::IsInvalidArgument(none.status()));
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("no GPU is usable here"));
}

TEST(Device, MoreWorkersThanGpusAreRefused) {
  for (const char* wanted : {"auto", "cuda"}) {
    const auto third = ChooseDevice(wanted, 2, 2, 3);
    EXPECT_TRUE(absl::IsInvalidArgument(third.status()));
    const std::string text(third.status().message());
    EXPECT_THAT(text, HasSubstr("there are 2 GPUs for 3 workers"));
    EXPECT_THAT(text, HasSubstr("--nproc_per_node 2"));
  }
  EXPECT_THAT(std::string(ChooseDevice("cuda", 1, 1, 2).status().message()),
              HasSubstr("there is 1 GPU for 2 workers"));
}

}  // namespace
}  // namespace mtrun::trainers
