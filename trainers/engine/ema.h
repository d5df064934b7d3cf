// An exponential moving average of a model's parameters, the weights that diffusion samples with. Not
// thread-safe.
#pragma once

#include <vector>

#include <torch/torch.h>

namespace mtrun::engine {

class Ema {
 public:
  /// Starts as a copy of `parameters` (PyTorch's order: module.parameters()), which stay the same tensors. 0
  /// <= decay < 1.
  Ema(std::vector<at::Tensor> parameters, double decay);

  /// average += (1 - decay) * (parameters - average): once after each optimizer step.
  void Update();

  /// average()[i] belongs to parameter i; for checkpoints.
  const std::vector<at::Tensor>& average() const { return average_; }

  /// While it lives, the model computes with the average. No optimizer step and no Update in the meantime.
  class Scope {
   public:
    explicit Scope(Ema& ema) : ema_(ema) { ema_.Swap(); }
    ~Scope() { ema_.Swap(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Ema& ema_;
  };

 private:
  void Swap();

  std::vector<at::Tensor> parameters_;  // the model's own
  std::vector<at::Tensor> values_;      // detached aliases of them
  std::vector<at::Tensor> average_;
  const double decay_;
};

}  // namespace mtrun::engine
