#include "trainers/optim/grad_scaler.h"

#include <gtest/gtest.h>

#include "tests/trainers/support/parity.h"

namespace mtrun::trainers {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(parity, grad_scaler) {
  const nlohmann::json file = testing::ParityJson("grad_scaler.json");
  GradScaler scaler(at::kCPU, {.initial_scale = 1024, .growth_interval = 4});
  ASSERT_EQ(file["rows"].size(), 16u);
  for (const auto& row : file["rows"]) {
    at::Tensor gradient = at::ones({1});
    if (row[1].get<bool>()) gradient.fill_(kInf);
    scaler.Unscale({gradient});
    EXPECT_EQ(scaler.found_inf().item<float>() != 0, row[1].get<bool>());
    scaler.Update();
    EXPECT_EQ(scaler.scale().item<float>(), row[2].get<float>()) << "step " << row[0];
  }
}

TEST(grad_scaler, UnscalingRestoresTheGradients) {
  GradScaler scaler(at::kCPU);
  at::Tensor x = at::tensor({1.0f, 2.0f, 3.0f}).requires_grad_();
  const at::Tensor loss = (x * x).sum();
  torch::autograd::backward({loss}, {scaler.RootGradient(loss, 0.25)});
  EXPECT_EQ(x.grad()[1].item<float>(), 65536 * 0.25f * 4);
  scaler.Unscale({x.grad()});
  EXPECT_TRUE(x.grad().equal(at::tensor({0.5f, 1.0f, 1.5f})));
  EXPECT_EQ(scaler.found_inf().item<float>(), 0);
}

TEST(grad_scaler, FindsInfinityAndNanInAnyTensor) {
  GradScaler scaler(at::kCPU);
  for (const float bad : {kInf, -kInf, std::numeric_limits<float>::quiet_NaN()}) {
    at::Tensor last = at::ones({5});
    last[3] = bad;
    scaler.Unscale({at::ones({2}), last});
    EXPECT_EQ(scaler.found_inf().item<float>(), 1) << bad;
    scaler.Unscale({at::ones({2}), at::ones({5})});
    EXPECT_EQ(scaler.found_inf().item<float>(), 0) << "of another step";
  }
}

TEST(grad_scaler, StateContinuesTheCount) {
  const GradScaler::Options options{.initial_scale = 8, .growth_interval = 3};
  GradScaler first(at::kCPU, options), second(at::kCPU, options);
  const auto good_step = [](GradScaler& scaler) {
    scaler.Unscale({at::ones({1})});
    scaler.Update();
    return scaler.scale().item<float>();
  };
  good_step(first);
  EXPECT_EQ(good_step(first), 8);
  const auto from = first.State(), to = second.State();
  ASSERT_EQ(from.size(), to.size());
  for (size_t i = 0; i < from.size(); ++i) at::Tensor(to[i].second).copy_(from[i].second);
  EXPECT_EQ(good_step(second), 16);
}

}  // namespace
}  // namespace mtrun::trainers
