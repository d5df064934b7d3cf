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
  // With --virtual_local_rank each worker sees one GPU and has local rank 0.
  EXPECT_EQ(*ChooseDevice("cuda", 1, 0, 8), (DeviceChoice{true, 0}));
}

TEST(Device, MissingCudaIsReported) {
  const auto none = ChooseDevice("cuda", 0, 0, 1);
  EXPECT_TRUE(absl::IsInvalidArgument(none.status()));
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("no GPU is usable here"));
}

TEST(Device, MoreWorkersThanGpusAreRefused) {
  for (const char* wanted : {"auto", "cuda"}) {
    const auto third = ChooseDevice(wanted, 2, 2, 3);
    EXPECT_TRUE(absl::IsInvalidArgument(third.status()));
    const std::string text(third.status().message());
    EXPECT_THAT(text, HasSubstr("it sees 2 GPUs for 3 workers"));
    EXPECT_THAT(text, HasSubstr("--nproc_per_node 2"));
  }
}

/// The first worker of a node sees two GPUs, the second sees one and gets the error.
TEST(Device, WorkerThatSeesFewerGpusThanTheOthersGetsAnError) {
  EXPECT_EQ(*ChooseDevice("auto", 2, 0, 2), (DeviceChoice{true, 0}));
  const std::string text(ChooseDevice("auto", 1, 1, 2).status().message());
  EXPECT_THAT(text, HasSubstr("worker 1 on this node has no GPU of its own; it sees 1 GPU for 2 workers"));
  EXPECT_THAT(text, HasSubstr("let each see all GPUs of the node (CUDA_VISIBLE_DEVICES)"));
}

}  // namespace
}  // namespace mtrun::trainers
