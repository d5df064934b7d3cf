#include "trainers/parallel/data_parallel.h"

#include <cmath>
#include <utility>

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>

#include "base/status_macros.h"
#include "trainers/collectives/all_reduce.h"
#include "trainers/device/torch_status.h"
#include "trainers/device/transfer.h"

namespace mtrun::trainers {
namespace {

using torch::autograd::variable_list;

std::vector<int64_t> Numels(const std::vector<at::Tensor>& tensors) {
  std::vector<int64_t> numels;
  for (const auto& t : tensors) numels.push_back(t.numel());
  return numels;
}

at::Tensor MakeFlat(const collectives::ProcessGroup& group, int64_t numel, const at::Tensor& like) {
  if (group && like.is_cpu()) return collectives::SharedTensor(group, numel, like.scalar_type());
  return at::zeros({numel}, like.options().requires_grad(false));
}

void CopyValues(absl::Span<const double> values, const at::Tensor& to) {
  at::Tensor source = at::empty({static_cast<int64_t>(values.size())}, at::kDouble);
  std::copy(values.begin(), values.end(), source.data_ptr<double>());
  if (to.is_cpu()) {
    to.copy_(source);
  } else {
    to.copy_(HostBuffer(source.sizes(), to.scalar_type(), to.device()).copy_(source), /*non_blocking=*/true);
  }
}

}  // namespace

/// Keeps a parameter's gradient accumulator alive and takes our hook off it again.
struct DataParallel::Hook {
  Hook(const at::Tensor& parameter, std::function<void()> on_gradient)
      : accumulator(torch::autograd::impl::grad_accumulator(parameter)) {
    key = accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [on_gradient = std::move(on_gradient)](const variable_list& outputs, const variable_list&) {
          on_gradient();
          return outputs;
        }));
  }
  ~Hook() { accumulator->del_post_hook(key); }

  std::shared_ptr<torch::autograd::Node> accumulator;
  uintptr_t key = 0;
};

DataParallel::DataParallel(std::vector<at::Tensor> parameters, collectives::ProcessGroup group, int stats,
                           int64_t bucket_bytes)
    : parameters_(std::move(parameters)),
      group_(std::move(group)),
      buckets_(parameters_.empty()
                   ? std::vector<Bucket>()
                   : PlanBuckets(Numels(parameters_), bucket_bytes / parameters_.front().element_size())) {
  MT_CHECK(!parameters_.empty()) << "nothing to train";
  gradients_.resize(parameters_.size());
  bucket_of_.resize(parameters_.size());
  for (size_t b = 0; b < buckets_.size(); ++b) {
    const int64_t tail = b + 1 == buckets_.size() ? stats : 0;
    flat_.push_back(MakeFlat(group_, buckets_[b].numel + tail, parameters_.front()));
    for (const BucketSlot& slot : buckets_[b].slots) {
      at::Tensor& parameter = parameters_[slot.parameter];
      MT_CHECK(parameter.scalar_type() == flat_[b].scalar_type()) << "parameters of several dtypes";
      gradients_[slot.parameter] = flat_[b].as_strided(parameter.sizes(), parameter.strides(),
                                                       flat_[b].storage_offset() + slot.offset);
      parameter.mutable_grad() = gradients_[slot.parameter];
      bucket_of_[slot.parameter] = b;
    }
  }
  stats_ = flat_.back().narrow(0, buckets_.back().numel, stats);
  works_.resize(buckets_.size());
  missing_.resize(buckets_.size());
  if (group_) AddHooks();
}

DataParallel::~DataParallel() = default;

void DataParallel::AddHooks() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    hooks_.push_back(std::make_unique<Hook>(parameters_[i], [this, i] { OnGradient(i); }));
  }
}

void DataParallel::BeginStep() {
  torch::NoGradGuard no_grad;
  for (auto& flat : flat_) flat.zero_();
  for (size_t b = 0; b < buckets_.size(); ++b) missing_[b] = buckets_[b].slots.size();
  for (auto& work : works_) work.reset();
  also_works_.clear();
  started_ = 0;
  last_round_ = false;
}

void DataParallel::SetStats(absl::Span<const double> values, int64_t first) {
  const auto count = static_cast<int64_t>(values.size());
  MT_CHECK(first + count == stats_.numel()) << first << " + " << count << " of " << stats_.numel();
  CopyValues(values, stats_.narrow(0, first, count));
}

DataParallel::Sums DataParallel::Read() const {
  torch::NoGradGuard no_grad;
  std::vector<at::Tensor> parts = {stats_};
  for (const at::Tensor& flat : flat_) parts.push_back(flat.sum().reshape({1}));
  const at::Tensor values = at::cat(parts).to(at::kCPU, at::kDouble);
  const double* const read = values.const_data_ptr<double>();
  const double* const behind_stats = read + stats_.numel();
  Sums sums{.stats = std::vector<double>(read, behind_stats)};
  for (size_t b = 0; b < flat_.size(); ++b) {
    // A finite sum proves it in one pass; one that is not may have overflowed.
    if (!std::isfinite(behind_stats[b]) && !flat_[b].isfinite().all().item<bool>()) sums.finite = false;
  }
  return sums;
}

void DataParallel::SumAlso(const at::Tensor& tensor) {
  if (tensor.numel() > 0) also_.push_back(tensor);
}

void DataParallel::LastRound() {
  last_round_ = true;
  StartAlso();
}

void DataParallel::StartAlso() {
  if (!group_ || also_works_.size() == also_.size()) return;
  for (const auto& tensor : also_) {
    also_works_.push_back(collectives::StartAllReduce(group_, tensor));
  }
}

void DataParallel::OnGradient(size_t parameter) {
  if (!last_round_) return;
  --missing_[bucket_of_[parameter]];
  StartReadyBuckets();
}

void DataParallel::StartReadyBuckets() {
  // In the order of the buckets, whatever the order of completion: all members must make the same sequence of
  // calls.
  while (started_ < buckets_.size() && missing_[started_] == 0) StartBucket(started_++);
}

void DataParallel::StartBucket(size_t bucket) {
  works_[bucket] = collectives::StartAllReduce(group_, flat_[bucket]);
}

absl::Status DataParallel::FinishStep() {
  if (!group_) return absl::OkStatus();
  return TorchStatus("sum of the gradients over the workers", [&] {
    StartAlso();
    while (started_ < buckets_.size()) StartBucket(started_++);
    for (auto& work : also_works_) work->wait();
    for (auto& work : works_) work->wait();
  });
}

}  // namespace mtrun::trainers
