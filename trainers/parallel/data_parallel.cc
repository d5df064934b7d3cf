#include "trainers/parallel/data_parallel.h"

#include <cmath>

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>

#include "base/status_macros.h"
#include "trainers/collectives/all_reduce.h"
#include "trainers/collectives/cpu_backend.h"
#include "trainers/device/torch_status.h"

namespace mtrun::trainers {
namespace {

using torch::autograd::variable_list;

std::vector<int64_t> Numels(const std::vector<at::Tensor>& tensors) {
  std::vector<int64_t> numels;
  for (const auto& t : tensors) numels.push_back(t.numel());
  return numels;
}

/// True if the group can add partial sums in the order of a tree. A device adds in its own.
bool AddsInTree(const collectives::ProcessGroup& group, const at::Tensor& like) {
  if (!like.is_cpu() || !group) return like.is_cpu();
  const collectives::DeviceGroup* const device = collectives::DeviceOf(group);
  return (device == nullptr || !device->Takes(like)) && collectives::CpuBackendOf(*group) != nullptr;
}

/// Where the partial sum goes that ends with `step`; undefined if none does, or if it stays.
at::Tensor PlaceOf(const collectives::LeafStep& step, const std::vector<std::vector<at::Tensor>>& places,
                   size_t i) {
  return step.partial < 0 || places.empty() ? at::Tensor() : places[static_cast<size_t>(step.partial)][i];
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
                           int64_t bucket_bytes, Gradients kind, int64_t micro_batches)
    : parameters_(std::move(parameters)),
      group_(std::move(group)),
      fixed_(kind == Gradients::kFixed),
      micro_batches_(fixed_ || !AddsInTree(group_, parameters_.front()) ? 0 : micro_batches),
      adder_(parameters_.size()) {
  MT_CHECK(!parameters_.empty()) << "nothing to train";
  gradients_.resize(parameters_.size());
  if (group_ || fixed_) MakeBuckets(bucket_bytes);
  if (group_) AddHooks();
}

void DataParallel::MakeBuckets(int64_t bucket_bytes) {
  buckets_ = PlanBuckets(Numels(parameters_), bucket_bytes / parameters_.front().element_size());
  bucket_of_.resize(parameters_.size());
  const int64_t most = sums_in_tree() ? MostPartialSums(micro_batches_, group_->getSize()) : 1;
  for (size_t b = 0; b < buckets_.size(); ++b) {
    partials_.push_back(MakeFlat(group_, most * buckets_[b].numel, parameters_.front()).view({most, -1}));
    flat_.push_back(partials_[b].select(0, 0));
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
  if (sums_in_tree()) MakePlaces();
}

void DataParallel::MakePlaces() {
  places_.assign(static_cast<size_t>(partials_.front().size(0)), std::vector<at::Tensor>(parameters_.size()));
  for (size_t partial = 0; partial < places_.size(); ++partial) {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const at::Tensor& room = partials_[bucket_of_[i]];
      places_[partial][i] = gradients_[i].as_strided(
          gradients_[i].sizes(), gradients_[i].strides(),
          gradients_[i].storage_offset() + static_cast<int64_t>(partial) * room.stride(0));
    }
  }
}

DataParallel::~DataParallel() = default;

void DataParallel::AddHooks() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    hooks_.push_back(std::make_unique<Hook>(parameters_[i], [this, i] { OnGradient(i); }));
  }
}

void DataParallel::BeginStep(int64_t filled) {
  torch::NoGradGuard no_grad;
  if (sums_in_tree()) {
    if (std::exchange(filled_, filled) != filled)
      tree_ = TreeOf(micro_batches_, filled, group_ ? group_->getRank() : 0, group_ ? group_->getSize() : 1);
    pass_ = also_pass_ = 0;
    adder_.BeginStep();
    also_adder_.BeginStep();
  }
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
  if (tensor.numel() == 0) return;
  also_.push_back(tensor);
  also_adder_ = LeafAdder(also_.size());
  const bool adds = sums_in_tree() && group_;
  also_partials_.push_back(adds ? at::zeros({partials_.front().size(0), tensor.numel()}, tensor.options())
                                : at::Tensor());
  also_places_.resize(adds ? places_.size() : 0);
  for (size_t partial = 0; partial < also_places_.size(); ++partial)
    also_places_[partial].push_back(also_partials_.back().select(0, static_cast<int64_t>(partial)));
}

void DataParallel::LastRound() {
  last_round_ = true;
  if (sums_in_tree()) PushReducedTensors();
  StartAlso();
}

void DataParallel::StartAlso() {
  if (!group_ || also_works_.size() == also_.size()) return;
  for (size_t i = 0; i < also_.size(); ++i)
    also_works_.push_back(StartSum(also_[i], also_partials_[i], nullptr));
}

/// Adds the running pass's gradient of a parameter, or zero if it has none, to those of the passes before.
void DataParallel::Push(size_t parameter) {
  torch::NoGradGuard no_grad;
  at::Tensor& found = parameters_[parameter].mutable_grad();
  at::Tensor leaf = found.defined() ? std::move(found) : at::zeros_like(parameters_[parameter]);
  found.reset();
  const collectives::LeafStep& step = tree_.own[pass_];
  adder_.Push(parameter, std::move(leaf), step, PlaceOf(step, places_, parameter));
  taken_[parameter] = true;
}

void DataParallel::PushReducedTensors() {
  torch::NoGradGuard no_grad;
  for (size_t i = 0; i < also_.size(); ++i) {
    const collectives::LeafStep& step = tree_.own[also_pass_];
    also_adder_.Push(i, also_[i].flatten().clone(), step, PlaceOf(step, also_places_, i));
    also_[i].zero_();
  }
  ++also_pass_;
}

void DataParallel::EndPass() {
  if (!sums_in_tree()) return;
  if (also_pass_ == pass_) PushReducedTensors();
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (!taken_[i]) Push(i);
  ++pass_;
  taken_.assign(parameters_.size(), false);
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
  if (sums_in_tree()) return;  // by EndPass
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!taken_[i]) TakeIntoBucket(i);
  }
}

void DataParallel::OnGradient(size_t parameter) {
  if (sums_in_tree()) {
    Push(parameter);
  } else if (!taken_[parameter]) {
    TakeIntoBucket(parameter);
  }
  if (!last_round_) return;
  --missing_[bucket_of_[parameter]];
  StartReadyBuckets();
}

void DataParallel::StartReadyBuckets() {
  // In the order of the buckets, not of completion: all members must make the same sequence of calls.
  while (started_ < buckets_.size() && missing_[started_] == 0) StartBucket(started_++);
}

void DataParallel::StartBucket(size_t bucket) {
  const bool last = bucket + 1 == buckets_.size() && piggybacks_record();
  if (last) notes_->own = std::move(note_);
  works_[bucket] = StartSum(flat_[bucket], partials_[bucket], last ? notes_ : nullptr);
}

c10::intrusive_ptr<c10d::Work> DataParallel::StartSum(const at::Tensor& flat, const at::Tensor& partials,
                                                      std::shared_ptr<collectives::Notes> notes) {
  if (sums_in_tree()) return collectives::StartSumOfPartials(group_, partials, tree_.plan, std::move(notes));
  return notes ? collectives::StartAllReduce(group_, flat, std::move(notes))
               : collectives::StartAllReduce(group_, flat);
}

absl::Status DataParallel::FinishStep() {
  if (!group_) {
    notes_->all = {std::move(note_)};
    return TorchStatus("gradients", [&] {
      torch::NoGradGuard no_grad;
      for (size_t i = 0; sums_in_tree() && i < parameters_.size(); ++i)
        parameters_[i].mutable_grad() = adder_.Newest(i);
      for (size_t i = 0; sums_in_tree() && i < also_.size(); ++i)
        also_[i].copy_(also_adder_.Newest(i).view_as(also_[i]));
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
    if (!sums_in_tree()) return;
    torch::NoGradGuard no_grad;
    for (size_t i = 0; i < also_.size(); ++i) also_[i].copy_(also_places_.front()[i].view_as(also_[i]));
    for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i].mutable_grad() = gradients_[i];
  });
}

}  // namespace mtrun::trainers
