#include "trainers/parallel/data_parallel.h"

#include <cmath>
#include <utility>

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>

#include "base/status_macros.h"
#include "trainers/collectives/all_reduce.h"
#include "trainers/device/torch_status.h"

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

DataParallel::DataParallel(std::vector<at::Tensor> parameters, collectives::ProcessGroup group,
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
    flat_.push_back(MakeFlat(group_, buckets_[b].numel, parameters_.front()));
    for (const BucketSlot& slot : buckets_[b].slots) {
      at::Tensor& parameter = parameters_[slot.parameter];
      MT_CHECK(parameter.scalar_type() == flat_[b].scalar_type()) << "parameters of several dtypes";
      gradients_[slot.parameter] = flat_[b].as_strided(parameter.sizes(), parameter.strides(),
                                                       flat_[b].storage_offset() + slot.offset);
      parameter.mutable_grad() = gradients_[slot.parameter];
      bucket_of_[slot.parameter] = b;
    }
  }
  if (collectives::DeviceGroup* const device = collectives::DeviceOf(group_)) {
    if (device->Takes(flat_.back())) device_ = device;
  }
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
  note_.clear();
  notes_ = std::make_shared<collectives::Notes>();
  started_ = 0;
  last_round_ = false;
}

at::Tensor DataParallel::BucketSums() const {
  torch::NoGradGuard no_grad;
  std::vector<at::Tensor> sums;
  for (const at::Tensor& flat : flat_) sums.push_back(flat.sum());
  return at::stack(sums).to(at::kDouble);
}

bool DataParallel::GradientsAreFinite(const at::Tensor& sums) const {
  for (size_t b = 0; b < flat_.size(); ++b) {
    const double sum = sums[static_cast<int64_t>(b)].item<double>();
    if (!std::isfinite(sum) && !flat_[b].isfinite().all().item<bool>()) return false;
  }
  return true;
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
  if (bucket + 1 < buckets_.size() || !notes_ride()) {
    works_[bucket] = collectives::StartAllReduce(group_, flat_[bucket]);
  } else {
    notes_->own = std::move(note_);
    works_[bucket] = collectives::StartAllReduce(group_, flat_[bucket], notes_);
  }
}

absl::Status DataParallel::FinishStep() {
  if (!group_) {
    notes_->all = {std::move(note_)};
    return absl::OkStatus();
  }
  return TorchStatus("sum of the gradients over the workers", [&] {
    StartAlso();
    while (started_ < buckets_.size()) StartBucket(started_++);
    if (device_ != nullptr) device_->MarkOwnWork();
    for (auto& work : also_works_) work->wait();
    for (auto& work : works_) work->wait();
  });
}

}  // namespace mtrun::trainers
