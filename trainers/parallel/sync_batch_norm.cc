#include "trainers/parallel/sync_batch_norm.h"

#include <algorithm>
#include <utility>

#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include "base/status_macros.h"
#include "trainers/collectives/all_reduce.h"

namespace mtrun::trainers {

/// State that the passes of one round share; the backward pass keeps it.
struct SyncBatchNorm::Round : torch::CustomClassHolder {
  collectives::ProcessGroup group;
  int rank = 0, world_size = 1;
  std::vector<int64_t> members;
  mutable at::Tensor index;  // `members` on the rows' device, from the first exchange on

  /// Returns the rows of the members, in the order of ranks. One all-reduce of a table in which each worker
  /// fills its own row is an all-gather, and groups of the same round do not disturb each other.
  at::Tensor Exchange(const at::Tensor& row) const {
    at::Tensor rows = row.unsqueeze(0);
    if (group) {
      rows = at::zeros({world_size, row.numel()}, row.options());
      rows.select(0, rank).copy_(row);
      collectives::AllReduce(group, rows);
    }
    if (!index.defined())
      index = at::tensor(members, at::TensorOptions(at::kLong)).to(row.device(), at::kLong, true);
    return rows.index_select(0, index);
  }
};

namespace {

using Round = SyncBatchNorm::Round;
using models::ValuesPerChannel;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor PerChannel(const at::Tensor& values, at::ScalarType dtype) {
  return values.to(dtype).view({1, -1, 1, 1});
}

/// Widens half precision, because the CPU kernels want weights of the input's own dtype.
at::Tensor Wide(const at::Tensor& x) {
  return x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf ? x.to(at::kFloat) : x;
}

/// Returns the dtype in which a GPU's kernels compute statistics and sums of `x`: all members exchange these.
at::ScalarType WideType(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

/// The group's moments that normalising needs.
struct Moments {
  at::Tensor mean, second;  // [C]; second: the biased variance on the CPU, 1/sqrt(variance + eps) on CUDA
  at::Tensor counts;        // values per channel, one row per member
  at::Tensor statistics;    // [2, C]: mean and unbiased variance
};

/// Combines the parts' counts, means and sums of squared deviations (Chan, Golub and LeVeque 1983).
Moments CombineOnCpu(const at::Tensor& rows, int64_t channels, at::ScalarType dtype) {
  const at::Tensor counts = rows.narrow(1, 0, 1);
  const at::Tensor means = rows.narrow(1, 1, channels), squares = rows.narrow(1, 1 + channels, channels);
  const double total = std::max(counts.sum().item<double>(), 1.0);
  const at::Tensor mean = (counts * means).sum(0) / total;
  const at::Tensor square = (squares + counts * (means - mean).square()).sum(0);
  const at::Tensor unbiased = square / std::max(total - 1, 1.0);
  return {mean.to(dtype), (square / total).to(dtype), counts, at::stack({mean, unbiased}).to(dtype)};
}

Moments MomentsOnCpu(const Round& round, const at::Tensor& x) {
  const int64_t channels = x.size(1);
  const auto count = static_cast<double>(ValuesPerChannel(x));
  at::Tensor row = at::zeros({1 + 2 * channels}, at::kDouble);
  if (count > 0) {
    const auto [mean, variance] = at::batch_norm_update_stats(x, {}, {}, /*momentum=*/0.0);
    row[0] = count;
    row.narrow(0, 1, channels).copy_(mean);
    row.narrow(0, 1 + channels, channels).copy_(variance.to(at::kDouble).mul(count));
  }
  return CombineOnCpu(round.Exchange(row), channels, x.scalar_type());
}

/// Like torch.nn.SyncBatchNorm, but does not wait for the device: the plan says which rows have samples.
Moments MomentsOnCuda(const Round& round, const at::Tensor& x, double eps) {
  const int64_t channels = x.size(1);
  const at::TensorOptions wide = x.options().dtype(WideType(x));
  at::Tensor row = at::zeros({1 + 2 * channels}, wide);
  if (x.numel() > 0) {
    const auto [mean, inverse] = at::batch_norm_stats(x, eps);
    row = at::cat({at::full({1}, static_cast<double>(ValuesPerChannel(x)), wide), mean, inverse});
  }
  const at::Tensor rows = round.Exchange(row);
  const at::Tensor counts = rows.select(1, 0).contiguous(), statistics = at::zeros({2, channels}, wide);
  if (x.numel() == 0) return {statistics.select(0, 0), statistics.select(0, 1), counts, statistics};
  const auto [mean, inverse] = at::batch_norm_gather_stats_with_counts(
      x, rows.narrow(1, 1, channels).contiguous(), rows.narrow(1, 1 + channels, channels).contiguous(),
      statistics.select(0, 0), statistics.select(0, 1), /*momentum=*/1.0, eps, counts);
  return {mean, inverse, counts, statistics};
}

/// This worker's part of the sums that the input's gradient needs, and the gradients of weight and bias.
struct Sums {
  at::Tensor gradient, gradient_x;  // sums of dy and of dy * (x - mean) [* invstd on the CPU]
  at::Tensor weight, bias;
};

Sums SumsOnCpu(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight, const Moments& moments,
               double eps) {
  if (x.numel() == 0) {
    const at::Tensor zero = at::zeros_like(weight);
    return {zero, zero, zero, zero};
  }
  const auto [unused, dweight, dbias] = at::native_batch_norm_backward(
      dy, x, weight, moments.mean, moments.second, {}, {}, /*train=*/false, eps, {false, true, true});
  return {dbias, dweight, dweight, dbias};
}

/// Returns dx = w s (dy - sum(dy)/N - xhat sum(dy xhat)/N) with xhat = (x - mean) s, s = 1/sqrt(variance +
/// eps) (Ioffe and Szegedy 2015).
at::Tensor InputGradientOnCpu(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                              const Moments& moments, const at::Tensor& sums, double eps) {
  const double total = std::max(moments.counts.sum().item<double>(), 1.0);
  const int64_t channels = x.size(1);
  const at::Tensor s = (moments.second.to(at::kDouble) + eps).rsqrt();
  const at::Tensor a = weight.to(at::kDouble) * s;
  const at::Tensor b = -a * s * sums.narrow(0, channels, channels) / total;
  const at::Tensor c = -a * sums.narrow(0, 0, channels) / total - b * moments.mean.to(at::kDouble);
  const at::ScalarType dtype = x.scalar_type();
  return at::addcmul(PerChannel(c, dtype), x, PerChannel(b, dtype)).addcmul_(dy, PerChannel(a, dtype));
}

struct SyncFunction : torch::autograd::Function<SyncFunction> {
  static variable_list forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                               const at::Tensor& bias, double eps, const c10::intrusive_ptr<Round>& round) {
    const bool cuda = input.is_cuda();
    const at::Tensor x = cuda ? input.contiguous(input.suggest_memory_format()) : Wide(input);
    const Moments moments = cuda ? MomentsOnCuda(*round, x, eps) : MomentsOnCpu(*round, x);
    at::Tensor y;
    if (x.numel() == 0) {
      y = at::empty_like(x);
    } else if (cuda) {
      y = at::batch_norm_elemt(x, weight, bias, moments.mean, moments.second, eps);
    } else {
      y = std::get<0>(
          at::native_batch_norm(x, weight, bias, moments.mean, moments.second, /*training=*/false, 0.0, eps));
    }
    context->save_for_backward({x, weight, moments.mean, moments.second, moments.counts});
    context->saved_data["eps"] = eps;
    context->saved_data["round"] = c10::IValue::make_capsule(round);
    context->mark_non_differentiable({moments.statistics});
    return {y.to(input.scalar_type()), moments.statistics};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const Moments moments{saved[2], saved[3], saved[4], {}};
    const double eps = context->saved_data["eps"].toDouble();
    const auto round = c10::static_intrusive_pointer_cast<Round>(context->saved_data["round"].toCapsule());
    const at::ScalarType dtype = gradients[0].scalar_type();
    const auto result = x.is_cuda()
                            ? OnCuda(*round, gradients[0], x, weight, moments)
                            : OnCpu(*round, gradients[0].to(x.scalar_type()), x, weight, moments, eps);
    return {result[0].to(dtype), result[1], result[2], at::Tensor(), at::Tensor()};
  }

 private:
  static variable_list OnCpu(const Round& round, const at::Tensor& dy, const at::Tensor& x,
                             const at::Tensor& weight, const Moments& moments, double eps) {
    const Sums own = SumsOnCpu(dy, x, weight, moments, eps);
    const at::Tensor sums = round.Exchange(at::cat({own.gradient, own.gradient_x}).to(at::kDouble)).sum(0);
    if (x.numel() == 0) return {at::zeros_like(x), own.weight, own.bias};
    return {InputGradientOnCpu(dy, x, weight, moments, sums, eps), own.weight, own.bias};
  }

  static variable_list OnCuda(const Round& round, const at::Tensor& gradient, const at::Tensor& x,
                              const at::Tensor& weight, const Moments& moments) {
    const int64_t channels = x.size(1);
    if (x.numel() == 0) {
      const at::Tensor zero = at::zeros_like(weight);
      round.Exchange(at::zeros({2 * channels}, x.options().dtype(WideType(x))));
      return {at::zeros_like(x), zero, zero};
    }
    const at::Tensor dy = gradient.contiguous(x.suggest_memory_format());
    const auto [sum, sum_x, dweight, dbias] =
        at::batch_norm_backward_reduce(dy, x, moments.mean, moments.second, weight, true, true, true);
    const at::Tensor sums = round.Exchange(at::cat({sum, sum_x})).sum(0);
    const at::Tensor dx = at::batch_norm_backward_elemt(
        dy, x, moments.mean, moments.second, weight, sums.narrow(0, 0, channels),
        sums.narrow(0, channels, channels), moments.counts.to(at::kInt));
    return {dx, dweight, dbias};
  }
};

MicroBatchRange Intersect(MicroBatchRange a, MicroBatchRange b) {
  const MicroBatchRange both{std::max(a.begin, b.begin), std::min(a.end, b.end)};
  return both.begin < both.end ? both : MicroBatchRange{};
}

}  // namespace

std::vector<SyncRound> PlanSyncRounds(int64_t micro_batches, int64_t filled, int64_t group_micro_batches,
                                      int rank, int world_size) {
  MT_CHECK(filled >= 0 && filled <= micro_batches && group_micro_batches > 0)
      << filled << " of " << micro_batches << " by " << group_micro_batches;
  std::vector<std::vector<bool>> busy(world_size);  // by rank, by round
  std::vector<SyncRound> rounds;
  for (int64_t begin = 0; begin < filled; begin += group_micro_batches) {
    const MicroBatchRange group{begin, std::min(begin + group_micro_batches, filled)};
    SyncRound mine;
    for (int r = 0; r < world_size; ++r) {
      if (!Intersect(MicroBatchesOf(micro_batches, r, world_size), group).empty()) mine.members.push_back(r);
    }
    // The first round in which all members are free. Members are consecutive ranks and groups come in their
    // order, so this uses as many rounds as the busiest worker has groups (colouring of an interval graph).
    size_t round = 0;
    const auto taken = [&](int r) { return round < busy[r].size() && busy[r][round]; };
    while (std::any_of(mine.members.begin(), mine.members.end(), taken)) ++round;
    for (const int r : mine.members) {
      busy[r].resize(std::max(busy[r].size(), round + 1));
      busy[r][round] = true;
    }
    rounds.resize(std::max(rounds.size(), round + 1));
    mine.micro_batches = Intersect(MicroBatchesOf(micro_batches, rank, world_size), group);
    if (!mine.micro_batches.empty()) rounds[round] = std::move(mine);
  }
  return rounds;
}

SyncBatchNorm::SyncBatchNorm(collectives::ProcessGroup group, int rank, int world_size)
    : group_(std::move(group)), rank_(rank), world_size_(world_size) {
  MT_CHECK(group_ || world_size == 1);
  SetRound({rank});
}

SyncBatchNorm::~SyncBatchNorm() = default;

void SyncBatchNorm::SetRound(const std::vector<int>& members) {
  if (round_ && std::equal(members.begin(), members.end(), round_->members.begin(), round_->members.end()))
    return;
  round_ = c10::make_intrusive<Round>();
  round_->group = group_;
  round_->rank = rank_;
  round_->world_size = world_size_;
  round_->members.assign(members.begin(), members.end());
}

models::Normalised SyncBatchNorm::Normalise(const at::Tensor& x, const at::Tensor& weight,
                                            const at::Tensor& bias, double eps) {
  const variable_list result = SyncFunction::apply(x, weight, bias, eps, round_);
  // All members of a round have samples.
  const bool known = round_->members.size() > 1 || ValuesPerChannel(x) > 1;
  return {result[0], result[1].detach(), known};
}

std::shared_ptr<SyncBatchNorm> MakeSyncBatchNorm(const torch::nn::Module& model,
                                                 collectives::ProcessGroup group, int rank, int world_size) {
  auto scope = std::make_shared<SyncBatchNorm>(std::move(group), rank, world_size);
  for (const auto& layer : models::BatchNormsOf(model)) layer->SetScope(scope);
  return scope;
}

}  // namespace mtrun::trainers
