#include "trainers/optim/optimizer.h"

#include <iterator>

#include <torch/types.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mtrun::trainers {

Optimizer::Tensors Optimizer::ZerosLike(const Tensors& tensors) {
  Tensors zeros;
  zeros.reserve(tensors.size());
  for (const auto& t : tensors) zeros.push_back(at::zeros_like(t, at::MemoryFormat::Preserve));
  return zeros;
}

/// Returns one group, or two if vectors (biases, norms) are exempt from the weight decay.
std::vector<Optimizer::Group> Optimizer::MakeGroups(const OptimizerOptions& options,
                                                    const Tensors& parameters) {
  Group decayed{options.weight_decay, {}, {}, {}}, spared;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const bool spare = !options.decay_vectors && options.weight_decay > 0 && parameters[i].dim() <= 1;
    Group& group = spare ? spared : decayed;
    group.indices.push_back(i);
    // Detached aliases keep autograd out, because parameters can be leaves that require gradients.
    group.parameters.push_back(parameters[i].detach());
  }
  std::vector<Group> groups;
  for (Group* group : {&decayed, &spared}) {
    if (!group->indices.empty()) groups.push_back(std::move(*group));
  }
  return groups;
}

Optimizer::Optimizer(const OptimizerOptions& options, const Tensors& parameters,
                     std::vector<std::string> names)
    : options_(options),
      groups_(MakeGroups(options, parameters)),
      names_(std::move(names)),
      rate_(at::zeros({}, at::kDouble)) {
  for (size_t i = names_.size(); i < parameters.size(); ++i) names_.push_back(absl::StrCat(i));
}

void Optimizer::BindGradients(const Tensors& gradients) {
  MT_CHECK(gradients.size() == names_.size()) << gradients.size() << " gradients";
  for (Group& group : groups_) {
    group.gradients.clear();
    for (const size_t i : group.indices) {
      MT_CHECK(gradients[i].strides() == group.parameters[group.gradients.size()].strides()) << names_[i];
      group.gradients.push_back(gradients[i]);
    }
  }
}

void Optimizer::SetRate(double learning_rate) {
  if (rate_.is_cpu()) {
    *rate_.data_ptr<double>() = learning_rate;
  } else {
    rate_.fill_(learning_rate);
  }
}

void Optimizer::KeepRateOnDevice() {
  const at::Device device = groups_.front().parameters.front().device();
  if (!device.is_cpu()) rate_ = at::zeros({}, at::TensorOptions(at::kFloat).device(device));
}

Optimizer::NamedState Optimizer::Named(
    const std::vector<std::pair<std::string, const std::vector<Tensors>*>>& kinds) const {
  std::vector<NamedState> of(names_.size());
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (size_t j = 0; j < groups_[g].indices.size(); ++j) {
      const size_t i = groups_[g].indices[j];
      for (const auto& [kind, tensors] : kinds) of[i].emplace_back(names_[i] + "." + kind, (*tensors)[g][j]);
    }
  }
  NamedState all;
  for (auto& state : of) std::move(state.begin(), state.end(), std::back_inserter(all));
  return all;
}

#define MT_DECLARE(kind, name, make)                                         \
  std::unique_ptr<Optimizer> make(const OptimizerOptions& options,           \
                                  const std::vector<at::Tensor>& parameters, \
                                  std::vector<std::string> names);
MT_OPTIMIZERS(MT_DECLARE)
#undef MT_DECLARE

std::unique_ptr<Optimizer> MakeOptimizer(const OptimizerOptions& options,
                                         const std::vector<at::Tensor>& parameters,
                                         std::vector<std::string> names) {
  MT_CHECK(names.empty() || names.size() == parameters.size());
  using Kind = OptimizerOptions::Kind;
  switch (options.kind) {
#define MT_MAKE(kind, name, make) \
  case Kind::kind:                \
    return make(options, parameters, std::move(names));
    MT_OPTIMIZERS(MT_MAKE)
#undef MT_MAKE
  }
  MT_CHECK(false) << "optimizer " << static_cast<int>(options.kind);
  return nullptr;
}

}  // namespace mtrun::trainers
