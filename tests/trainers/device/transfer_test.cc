#include "trainers/device/transfer.h"

#include <gtest/gtest.h>
#include <torch/types.h>

namespace mtrun::trainers {
namespace {

/// Tests run without a GPU, so no memory can be page-locked for one.
TEST(HostBuffer, IsPageableMemoryIfNoneCanBeLocked) {
  const at::Tensor buffer = HostBuffer({3, 4}, at::kFloat, at::Device(at::kCUDA, 0));
  EXPECT_TRUE(buffer.is_cpu());
  EXPECT_EQ(buffer.sizes(), at::IntArrayRef({3, 4}));
  EXPECT_TRUE(buffer.fill_(2).eq(2).all().item<bool>());
}

TEST(Fetch, CopiesRowMajor) {
  const at::Tensor tensor = at::arange(6, at::kFloat).view({2, 3}).t();
  const at::Tensor host = HostBuffer({24}, at::kByte, at::kCPU);
  Fetch(tensor, host);
  EXPECT_TRUE(host.view(at::kFloat).equal(tensor.contiguous().flatten()));
}

}  // namespace
}  // namespace mtrun::trainers
