// Adds tensors pass by pass in the order of a tree (tree_sum.h). Not thread-safe.
#pragma once

#include <cstddef>
#include <vector>

#include <torch/types.h>

#include "trainers/collectives/tree_sum.h"

namespace mtrun::trainers {

class LeafAdder {
 public:
  explicit LeafAdder(size_t tensors = 0) : stacks_(tensors) {}

  void BeginStep();
  /// Takes a pass's contribution to tensor number `i`, which may be overwritten from now on. A partial sum
  /// that ends with it is written to `to`, or kept if that is undefined.
  void Push(size_t i, at::Tensor leaf, const collectives::LeafStep& step, const at::Tensor& to);
  /// Returns the newest sum of tensor number `i`.
  const at::Tensor& Newest(size_t i) const { return stacks_[i].back(); }

 private:
  std::vector<std::vector<at::Tensor>> stacks_;
};

}  // namespace mtrun::trainers
