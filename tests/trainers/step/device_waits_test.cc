// Tests when a worker reports that its device, perhaps in the middle of a pass, waits for others.
#include <latch>
#include <thread>

#include <gtest/gtest.h>

#include "tests/trainers/support/fake_device.h"
#include "tests/trainers/support/rank_threads.h"
#include "trainers/models/batch_norm.h"
#include "trainers/step/train_step.h"
#include "trainers/tasks/classifier.h"

namespace mtrun::trainers {
namespace {

using testing::AwaitNoWaiting;
using testing::AwaitWaiting;
using testing::FakeNetwork;

/// A source of one image a micro-batch, six a step.
class SixImages : public MicroBatchSource {
 public:
  int64_t micro_batches() const override { return 6; }
  int64_t SamplesInStep(int64_t) const override { return 6; }
  int64_t SamplesInMicroBatch(int64_t, int64_t) const override { return 1; }
  Batch Make(int64_t step, int64_t micro_batch) override {
    datasets::SampleSum samples;
    samples.Add(step * 6 + micro_batch);
    const at::Tensor image = at::arange(48, at::kFloat).view({1, 3, 4, 4}) * static_cast<double>(micro_batch);
    return {image, at::zeros({1}, at::kLong), samples};
  }
};

struct Normed : torch::nn::Module {
  Normed()
      : norm(register_module("norm", std::make_shared<models::BatchNorm>(3))),
        weight(register_parameter("weight", at::ones({3, 2}))) {}
  at::Tensor forward(const at::Tensor& x) { return norm->forward(x).mean({2, 3}).matmul(weight); }
  std::shared_ptr<models::BatchNorm> norm;
  at::Tensor weight;
};

/// Takes a step with synchronised batch normalisation.
absl::Status TakeStep(int rank, int world, const collectives::ProcessGroup& group) {
  const auto net = std::make_shared<Normed>();
  ClassifierTask task(
      AsModel(net),
      [](const at::Tensor& logits, const at::Tensor&) { return logits.select(1, 0).square().mean(); }, 2);
  SixImages source;
  TrainState state(*net, {});
  DataParallel sums(state.trained(), group);
  TrainStep step(task, source, sums, state, {.sync_micro_batches = 6});
  return step.Run(0, rank, world, 0.1).status();
}

void RunWithDevices(const std::shared_ptr<FakeNetwork>& network, int world,
                    const std::function<void(int, const collectives::ProcessGroup&)>& body) {
  const auto device = [network](const collectives::GroupMember& member,
                                const std::shared_ptr<collectives::Bootstrap>&) {
    return network->DeviceOf(member.rank);
  };
  testing::RunRanksWithDevices(world, device, [&](int rank, const auto& group) {
    ASSERT_TRUE(group.ok()) << group.status();
    body(rank, *group);
  });
}

/// Covers the sums of the normalisation forward and backward, of the statistics and of the gradients. A GPU's
/// thread is far ahead of the operation that its device waits for.
TEST(DeviceWaits, HangingDeviceIsDistinguishedFromWaitingOnes) {
  for (const int64_t sum : {0, 1, 2, 3}) {
    const auto network = FakeNetwork::Make(3);
    std::latch hangs(1), waiting(2);
    network->HangAt(/*rank=*/1, sum, [&] { hangs.count_down(); });
    RunWithDevices(network, 3, [&](int rank, const collectives::ProcessGroup& group) {
      std::thread step([&] { EXPECT_FALSE(TakeStep(rank, 3, group).ok()); });
      hangs.wait();
      if (rank == 1) {
        waiting.wait();
        EXPECT_TRUE(AwaitNoWaiting(group)) << "it hangs before sum " << sum;
        collectives::AbortGroup(group, "it is killed");
      } else {
        EXPECT_TRUE(AwaitWaiting(group))
            << "rank " << rank << " is taken for one that hangs before sum " << sum;
        waiting.count_down();
      }
      step.join();
    });
  }
}

TEST(DeviceWaits, NoDeviceWaitsAfterAnOrderlyStep) {
  RunWithDevices(FakeNetwork::Make(2), 2, [](int rank, const collectives::ProcessGroup& group) {
    EXPECT_EQ(TakeStep(rank, 2, group), absl::OkStatus());
    EXPECT_EQ(collectives::DeviceOf(group)->CurrentWait(), 0u);
  });
}

}  // namespace
}  // namespace mtrun::trainers
