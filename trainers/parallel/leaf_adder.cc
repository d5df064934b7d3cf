#include "trainers/parallel/leaf_adder.h"

#include <utility>

namespace mtrun::trainers {

void LeafAdder::BeginStep() {
  for (std::vector<at::Tensor>& stack : stacks_) stack.clear();
}

void LeafAdder::Push(size_t i, at::Tensor leaf, const collectives::LeafStep& step, const at::Tensor& to) {
  std::vector<at::Tensor>& stack = stacks_[i];
  for (int k = 0; k < step.additions; ++k) {
    at::Tensor left = std::move(stack.back());
    stack.pop_back();
    if (to.defined() && k + 1 == step.additions) {
      at::Tensor sum = to;
      at::add_out(sum, left, leaf);
      leaf = std::move(sum);
    } else {
      left.add_(leaf);
      leaf = std::move(left);
    }
  }
  if (to.defined() && step.additions == 0) {
    to.copy_(leaf);
    leaf = to;
  }
  stack.push_back(std::move(leaf));
}

}  // namespace mtrun::trainers
