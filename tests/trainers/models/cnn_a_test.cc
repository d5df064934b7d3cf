#include "trainers/models/cnn_a.h"

#include <gtest/gtest.h>

namespace mtrun::models {
namespace {

TEST(CnnA, HasTheExpectedParameterNames) {
  const CnnA net(0);
  int64_t total = 0;
  std::vector<std::string> names;
  for (const auto& p : net.named_parameters()) {
    names.push_back(p.key());
    total += p.value().numel();
  }
  EXPECT_EQ(total, 9986);
  EXPECT_EQ(names, (std::vector<std::string>{"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias",
                                             "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}));
}

TEST(CnnA, MapsImagesToLogitsOfAnyNumberOfClasses) {
  CnnA net(0, 100);
  EXPECT_EQ(net.forward(at::zeros({5, 3, 32, 32})).sizes().vec(), (std::vector<int64_t>{5, 100}));
}

}  // namespace
}  // namespace mtrun::models
