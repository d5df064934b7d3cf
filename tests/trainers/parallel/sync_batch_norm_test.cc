#include "trainers/parallel/sync_batch_norm.h"

#include <mutex>
#include <set>

#include <gtest/gtest.h>

#include <torch/nn/modules/conv.h>

#include "absl/strings/str_cat.h"
#include "tests/trainers/support/rank_threads.h"
#include "trainers/collectives/all_reduce.h"

namespace mtrun::trainers {
namespace {

using models::BatchNorm;
using models::RunningStatistics;
using testing::RunRanks;

/// Checks all properties that the header guarantees, for every small case.
TEST(sync_batch_norm, PlanCoversEachMicroBatchOnceWithMatchingRounds) {
  for (int64_t micro_batches = 1; micro_batches <= 9; ++micro_batches) {
    for (int64_t filled = 0; filled <= micro_batches; ++filled) {
      for (int64_t group = 1; group <= micro_batches; ++group) {
        for (int world = 1; world <= 10; ++world) {
          SCOPED_TRACE(absl::StrCat(micro_batches, " micro-batches, ", filled, " filled, groups of ", group,
                                    ", workers ", world));
          std::vector<std::vector<SyncRound>> plans;
          for (int rank = 0; rank < world; ++rank)
            plans.push_back(PlanSyncRounds(micro_batches, filled, group, rank, world));
          std::multiset<int64_t> covered;
          size_t busiest = 0;
          for (int rank = 0; rank < world; ++rank) {
            ASSERT_EQ(plans[rank].size(), plans[0].size());
            size_t busy = 0;
            for (size_t r = 0; r < plans[rank].size(); ++r) {
              const SyncRound& round = plans[rank][r];
              ASSERT_EQ(round.micro_batches.empty(), round.members.empty());
              if (round.micro_batches.empty()) continue;
              ++busy;
              ASSERT_EQ(round.micro_batches.begin / group, (round.micro_batches.end - 1) / group)
                  << "of one group";
              for (int64_t s = round.micro_batches.begin; s < round.micro_batches.end; ++s) covered.insert(s);
              for (const int member : round.members) {
                ASSERT_EQ(plans[member][r].members, round.members);
                ASSERT_EQ(plans[member][r].micro_batches.begin / group, round.micro_batches.begin / group);
              }
            }
            busiest = std::max(busiest, busy);
          }
          ASSERT_EQ(covered.size(), static_cast<size_t>(filled));
          for (int64_t s = 0; s < filled; ++s) ASSERT_EQ(covered.count(s), 1u);
          ASSERT_EQ(plans[0].size(), busiest) << "no more rounds than needed";
        }
      }
    }
  }
}

/// Two layers with a convolution in between, so that gradients have to pass through a normalisation.
struct Net : torch::nn::Module {
  Net() {
    first = register_module("first", std::make_shared<BatchNorm>(3));
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4, 3).padding(1)));
    second = register_module("second", std::make_shared<BatchNorm>(4));
    torch::NoGradGuard no_grad;
    int64_t k = 0;
    for (auto& p : parameters())
      p.copy_((at::arange(p.numel(), at::kFloat) + ++k).sin().view(p.sizes()).mul(0.5).add(0.3));
  }
  at::Tensor forward(const at::Tensor& x) {
    return second->forward(at::tanh(conv->forward(first->forward(x))));
  }
  std::shared_ptr<BatchNorm> first, second;
  torch::nn::Conv2d conv{nullptr};
};

/// The group of a past generation must be destroyed, because its connections are gone.
TEST(sync_batch_norm, IsDestroyedWithItsStep) {
  Net net;
  std::shared_ptr<SyncBatchNorm> scope = MakeSyncBatchNorm(net, nullptr, 0, 1);
  const std::weak_ptr<SyncBatchNorm> seen = scope;
  scope.reset();
  EXPECT_TRUE(seen.expired()) << "layers hold it";
  EXPECT_TRUE(net.forward(at::rand({2, 3, 4, 4})).defined());
}

TEST(sync_batch_norm, VarianceOfOneValueIsUnknown) {
  const at::Tensor weight = at::ones({2}), bias = at::zeros({2});
  SyncBatchNorm alone(nullptr, 0, 1);
  alone.SetRound({0});
  EXPECT_FALSE(alone.Normalise(at::ones({1, 2, 1, 1}), weight, bias, 1e-5).known);
  EXPECT_TRUE(alone.Normalise(at::ones({2, 2, 1, 1}), weight, bias, 1e-5).known);
  EXPECT_TRUE(alone.Normalise(at::ones({1, 2, 2, 1}), weight, bias, 1e-5).known);
  RunRanks(2, [&](int rank, const collectives::ProcessGroup& group) {
    SyncBatchNorm both(group, rank, 2);
    both.SetRound({0, 1});
    EXPECT_TRUE(both.Normalise(at::full({1, 2, 1, 1}, rank, at::kFloat), weight, bias, 1e-5).known);
  });
}

struct Statistics {
  std::vector<at::Tensor> gradients, buffers;
  double loss = 0;
};

at::Tensor Samples(int64_t begin, int64_t end, at::ScalarType dtype) {
  const at::Tensor all = (at::arange(64 * 3 * 25, at::kDouble) * 1.7).sin().view({64, 3, 5, 5}) + 2;
  return all.narrow(0, begin, end - begin).to(dtype);
}

/// Returns the loss of some samples. It is asymmetric, so that no gradient is zero by accident.
at::Tensor LossSum(const at::Tensor& y, int64_t begin) {
  const at::Tensor weight =
      (at::arange(begin * 100, begin * 100 + y.numel(), y.options().requires_grad(false)) * 0.37).cos();
  return (y * weight.view(y.sizes()) + y.square() * 0.1 * weight.view(y.sizes())).sum();
}

void SumOverWorkers(const collectives::ProcessGroup& group, const at::Tensor& tensor) {
  if (group) collectives::AllReduce(group, tensor);
}

/// Makes one step of `filled` micro-batches of 3 samples, as the header prescribes.
Statistics Step(int64_t micro_batches, int64_t filled, int64_t group_micro_batches, int rank, int world,
                const collectives::ProcessGroup& group, at::ScalarType dtype) {
  constexpr int64_t kMicro = 3;
  Net net;
  net.to(dtype);
  RunningStatistics statistics(net);
  const auto sync = MakeSyncBatchNorm(net, group, rank, world);
  statistics.BeginStep();
  Statistics outcome;
  for (auto& p : net.parameters()) p.mutable_grad() = at::zeros_like(p);
  for (const SyncRound& round : PlanSyncRounds(micro_batches, filled, group_micro_batches, rank, world)) {
    sync->SetRound(round.members);
    const int64_t begin = round.micro_batches.begin * kMicro, end = round.micro_batches.end * kMicro;
    const at::Tensor y = net.forward(Samples(begin, end, dtype).requires_grad_());
    const at::Tensor loss = round.micro_batches.empty() ? 0 * y.sum() : LossSum(y, begin);
    outcome.loss += loss.item<double>();
    loss.backward();
  }
  SumOverWorkers(group, statistics.sums());
  statistics.Move();
  at::Tensor total = at::full({1}, outcome.loss, at::kDouble);
  SumOverWorkers(group, total);
  outcome.loss = total.item<double>();
  for (const auto& p : net.parameters()) {
    SumOverWorkers(group, p.grad());
    outcome.gradients.push_back(p.grad());
  }
  outcome.buffers = net.buffers();
  return outcome;
}

/// Applies PyTorch's own batch norm to each whole group.
Statistics ReferenceSync(int64_t filled, int64_t group_micro_batches) {
  constexpr int64_t kMicro = 3;
  Net net;
  net.to(at::kDouble);
  RunningStatistics statistics(net);
  statistics.BeginStep();
  Statistics outcome;
  for (auto& p : net.parameters()) p.mutable_grad() = at::zeros_like(p);
  for (int64_t begin = 0; begin < filled; begin += group_micro_batches) {
    const int64_t end = std::min(begin + group_micro_batches, filled);
    const at::Tensor loss =
        LossSum(net.forward(Samples(begin * kMicro, end * kMicro, at::kDouble)), begin * kMicro);
    outcome.loss += loss.item<double>();
    loss.backward();
  }
  statistics.Move();
  for (const auto& p : net.parameters()) outcome.gradients.push_back(p.grad());
  outcome.buffers = net.buffers();
  return outcome;
}

void ExpectSame(const Statistics& got, const Statistics& want, double tolerance) {
  EXPECT_NEAR(got.loss, want.loss, tolerance * (std::abs(want.loss) + 1));
  for (size_t i = 0; i < want.gradients.size(); ++i) {
    const at::Tensor w = want.gradients[i], g = got.gradients[i].to(at::kDouble);
    EXPECT_LE((g - w).abs().max().item<double>(), tolerance * (w.abs().max().item<double>() + 1))
        << "gradient " << i;
  }
  for (size_t i = 0; i < want.buffers.size(); ++i) {
    EXPECT_TRUE(
        at::allclose(got.buffers[i].to(at::kDouble), want.buffers[i].to(at::kDouble), tolerance, tolerance))
        << i;
  }
}

/// Covers a whole step as one group, shared groups, uneven ranges, a short last step, and idle workers.
TEST(sync_batch_norm, EqualsBatchNormOverTheGroupAtAnyNumberOfWorkers) {
  struct Case {
    int64_t micro_batches, filled, group;
  };
  for (const Case& c :
       {Case{2, 2, 2}, Case{4, 4, 4}, Case{6, 6, 3}, Case{5, 5, 2}, Case{5, 3, 2}, Case{3, 1, 3}}) {
    const Statistics want = ReferenceSync(c.filled, c.group);
    for (const int world : {1, 2, 3, 4}) {
      SCOPED_TRACE(absl::StrCat(c.micro_batches, " micro-batches, ", c.filled, " filled, groups of ", c.group,
                                ", workers ", world));
      std::vector<Statistics> got(world);
      RunRanks(world, [&](int rank, const collectives::ProcessGroup& group) {
        got[rank] = Step(c.micro_batches, c.filled, c.group, rank, world, group, at::kDouble);
      });
      for (const Statistics& outcome : got) ExpectSame(outcome, want, 1e-10);
    }
  }
}

TEST(sync_batch_norm, Float32IsCloseAndBfloat16Works) {
  const Statistics want = ReferenceSync(4, 4);
  std::vector<Statistics> got(3);
  RunRanks(3, [&](int rank, const collectives::ProcessGroup& group) {
    got[rank] = Step(4, 4, 4, rank, 3, group, at::kFloat);
  });
  for (const Statistics& outcome : got) ExpectSame(outcome, want, 1e-4);
  SyncBatchNorm alone(nullptr, 0, 1);
  at::Tensor x = Samples(0, 8, at::kBFloat16).requires_grad_();
  const at::Tensor weight = at::ones({3}).requires_grad_(), bias = at::zeros({3}).requires_grad_();
  const auto result = alone.Normalise(x, weight, bias, BatchNorm::kEps);
  EXPECT_EQ(result.output.scalar_type(), at::kBFloat16);
  EXPECT_EQ(result.statistics.scalar_type(), at::kFloat);
  (result.output * result.output).sum().backward();
  EXPECT_EQ(x.grad().scalar_type(), at::kBFloat16);
  EXPECT_EQ(weight.grad().scalar_type(), at::kFloat);
}

TEST(sync_batch_norm, ChannelsLastIsTheSame) {
  SyncBatchNorm alone(nullptr, 0, 1);
  const at::Tensor weight = at::tensor({1.0, 2.0, 0.5}, at::kDouble).requires_grad_(),
                   bias = at::ones({3}, at::kDouble).requires_grad_();
  at::Tensor a = Samples(0, 4, at::kDouble).requires_grad_();
  at::Tensor b = Samples(0, 4, at::kDouble).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
  const at::Tensor y = alone.Normalise(a, weight, bias, 1e-5).output,
                   z = alone.Normalise(b, weight, bias, 1e-5).output;
  EXPECT_TRUE(at::allclose(y, z));
  const at::Tensor root = (at::arange(y.numel(), at::kDouble) * 0.3).sin().view(y.sizes());
  y.backward(root);
  z.backward(root);
  EXPECT_TRUE(at::allclose(a.grad(), b.grad()));
}

}  // namespace
}  // namespace mtrun::trainers
