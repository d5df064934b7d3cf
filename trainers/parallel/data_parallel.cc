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

/// Keeps a parameter's gradient accumulator alive and removes the hook from it at the end.
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

  // A shared_ptr up to PyTorch 2.11, an intrusive_ptr since.
  decltype(torch::autograd::impl::grad_accumulator(at::Tensor())) accumulator;
  uintptr_t key = 0;
};

DataParallel::DataParallel(std::vector<at::Tensor> parameters, collectives::ProcessGroup group,
                           int64_t bucket_bytes, Gradients kind)
    : parameters_(std::move(parameters)), group_(std::move(group)), fixed_(kind == Gradients::kFixed) {
  MT_CHECK(!parameters_.empty()) << "nothing to train";
  gradients_.resize(parameters_.size());
  if (group_ || fixed_) MakeBuckets(bucket_bytes);
  if (group_) AddHooks();
}

void DataParallel::MakeBuckets(int64_t bucket_bytes) {
  buckets_ = PlanBuckets(Numels(parameters_), bucket_bytes / parameters_.front().element_size());
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
}

DataParallel::~DataParallel() = default;

void DataParallel::AddHooks() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    hooks_.push_back(std::make_unique<Hook>(parameters_[i], [this, i] { OnGradient(i); }));
  }
}

void DataParallel::BeginStep() {
  torch::NoGradGuard no_grad;
  if (fixed_) {
    for (auto& flat : flat_) flat.zero_();
  } else {
    for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  }
  taken_.assign(parameters_.size(), fixed_);
  for (size_t b = 0; b < buckets_.size(); ++b) missing_[b] = buckets_[b].slots.size();
  for (auto& work : works_) work.reset();
  also_works_.clear();
  note_.clear();
  notes_ = std::make_shared<collectives::Notes>();
  started_ = 0;
  last_round_ = false;
}

at::Tensor DataParallel::Sums() const {
  torch::NoGradGuard no_grad;
  const std::vector<at::Tensor>& all = gradients_stay() ? flat_ : gradients_;
  // On a device each tensor would be a launch, but foreach takes them all in one.
  if (!all.front().is_cpu()) return at::stack(at::_foreach_norm(all, 1)).to(at::kDouble);
  std::vector<at::Tensor> sums;
  for (const at::Tensor& tensor : all) sums.push_back(tensor.sum());
  return at::stack(sums).to(at::kDouble);
}

bool DataParallel::GradientsAreFinite(const at::Tensor& sums) const {
  const std::vector<at::Tensor>& all = gradients_stay() ? flat_ : gradients_;
  const double* const values = sums.const_data_ptr<double>();
  for (size_t i = 0; i < all.size(); ++i) {
    if (!std::isfinite(values[i]) && !all[i].isfinite().all().item<bool>()) return false;
  }
  return true;
}

void DataParallel::AddReducedTensor(const at::Tensor& tensor) {
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

/// Keeps autograd's tensors for a worker alone. If dimensions have one element, their strides can differ.
void DataParallel::TakeGradients() {
  torch::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& found = parameters_[i].mutable_grad();
    if (!found.defined() || found.strides() != parameters_[i].strides()) {
      const at::Tensor own = at::zeros_like(parameters_[i]);
      if (found.defined()) own.copy_(found);
      found = own;
    }
    gradients_[i] = found;
  }
}

/// Copies a gradient into its bucket. From then on autograd adds to it there.
void DataParallel::TakeIntoBucket(size_t parameter) {
  torch::NoGradGuard no_grad;
  at::Tensor& found = parameters_[parameter].mutable_grad();
  if (found.defined()) {
    gradients_[parameter].copy_(found);
  } else {
    gradients_[parameter].zero_();
  }
  found = gradients_[parameter];
  taken_[parameter] = true;
}

/// Completes gradients that no backward pass has reached.
void DataParallel::FillBuckets() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!taken_[i]) TakeIntoBucket(i);
  }
}

void DataParallel::OnGradient(size_t parameter) {
  if (!taken_[parameter]) TakeIntoBucket(parameter);
  if (!last_round_) return;
  --missing_[bucket_of_[parameter]];
  StartReadyBuckets();
}

void DataParallel::StartReadyBuckets() {
  // In the order of the buckets, not of completion: all members must make the same sequence of calls.
  while (started_ < buckets_.size() && missing_[started_] == 0) StartBucket(started_++);
}

void DataParallel::StartBucket(size_t bucket) {
  if (bucket + 1 < buckets_.size() || !piggybacks_record()) {
    works_[bucket] = collectives::StartAllReduce(group_, flat_[bucket]);
  } else {
    notes_->own = std::move(note_);
    works_[bucket] = collectives::StartAllReduce(group_, flat_[bucket], notes_);
  }
}

absl::Status DataParallel::FinishStep() {
  if (!group_) {
    notes_->all = {std::move(note_)};
    return TorchStatus("gradients", [&] {
      if (!fixed_) TakeGradients();
    });
  }
  return TorchStatus("sum of the gradients over the workers", [&] {
    StartAlso();
    FillBuckets();
    while (started_ < buckets_.size()) StartBucket(started_++);
    collectives::Waiting(device_, [&] {
      for (auto& work : also_works_) work->wait();
      for (auto& work : works_) work->wait();
    });
  });
}

}  // namespace mtrun::trainers
