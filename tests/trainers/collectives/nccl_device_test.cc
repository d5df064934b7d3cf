#include "trainers/collectives/nccl_device.h"

#include <cstdlib>
#include <string>

#include <gmock/gmock.h>

namespace mtrun::collectives {
namespace {

const at::Device kGpu(at::kCUDA, 0);

#ifdef MT_CUDA
std::string Variable(const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? "unset" : value;
}

/// Checks the environment that NCCL and its process group read when they are created.
TEST(NcclDevices, LaunchersAsyncErrorHandlingIsOverridden) {
  setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1", 1);  // set by mtrun, as by torchrun
  ASSERT_TRUE(NcclDevices(kGpu).ok());
  EXPECT_EQ(Variable("TORCH_NCCL_ASYNC_ERROR_HANDLING"), "0");
}

TEST(NcclDevices, NoWaitForDebugDumps) {
  ASSERT_TRUE(NcclDevices(kGpu).ok());
  EXPECT_EQ(Variable("TORCH_NCCL_DUMP_ON_TIMEOUT"), "0");
  EXPECT_EQ(Variable("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"), "0");
}

TEST(NcclDevices, MembersConnectBeforeTheirFirstSum) {
  ASSERT_TRUE(NcclDevices(kGpu).ok());
  EXPECT_EQ(Variable("NCCL_RUNTIME_CONNECT"), "0");
}
#else
TEST(NcclDevices, ProgramBuiltWithoutNcclReportsIt) {
  EXPECT_THAT(std::string(NcclDevices(kGpu).status().message()), ::testing::HasSubstr("tools/setup --cuda"));
}
#endif

}  // namespace
}  // namespace mtrun::collectives
