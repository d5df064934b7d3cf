#include "trainers/features/frozen_features.h"

#include <random>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "trainers/device/amp.h"
#include "trainers/models/resnet.h"

namespace mtrun::trainers {
namespace {

/// Kept features come from other micro-batches than those in which they are used. So that it makes no difference
/// who computed them and when, an image has the same features in any place of a batch beside any others.
TEST(FrozenFeaturesTest, FeaturesOfAnImageDoNotDependOnItsPlaceInTheBatch) {
  const auto seed = std::random_device()();
  RecordProperty("seed", static_cast<int>(seed));
  std::mt19937 random(seed);
  at::manual_seed(seed);
  struct Case {
    at::ScalarType dtype;
    Precision precision;
    at::MemoryFormat format;
    int64_t size;
  };
  const Case cases[] = {{at::kFloat, Precision::kFp32, at::MemoryFormat::ChannelsLast, 64},
                        {at::kFloat, Precision::kFp32, at::MemoryFormat::Contiguous, 96},
                        {at::kFloat, Precision::kBf16, at::MemoryFormat::ChannelsLast, 64},
                        {at::kDouble, Precision::kFp32, at::MemoryFormat::ChannelsLast, 64}};
  for (const auto& [dtype, precision, format, size] : cases) {
    models::ResNet net(1, models::ResNet224());
    net.FreezeBackbone();
    net.to(dtype);
    const torch::NoGradGuard no_grad;
    const Autocast autocast(at::kCPU, precision);
    for (const int64_t batch : {2, 5, 8}) {
      const at::Tensor images = at::randn({batch, 3, size, size}, dtype).contiguous(format);
      const at::Tensor features = net.Features(images);
      at::Tensor others = at::randn({batch, 3, size, size}, dtype).contiguous(format);
      const auto from = static_cast<int64_t>(random() % batch), to = static_cast<int64_t>(random() % batch);
      others.select(0, to).copy_(images.select(0, from));
      EXPECT_TRUE(net.Features(others).select(0, to).equal(features.select(0, from)))
          << dtype << " batch " << batch << ": from " << from << " to " << to << ", seed " << seed;
      others.zero_();
      others.select(0, to).copy_(images.select(0, from));
      EXPECT_TRUE(net.Features(others).select(0, to).equal(features.select(0, from)))
          << dtype << " batch " << batch << " beside black images, seed " << seed;
    }
  }
}

}  // namespace
}  // namespace mtrun::trainers
