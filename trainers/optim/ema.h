// An exponential moving average of a model's parameters, the weights that diffusion samples with. Not
// thread-safe.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <torch/types.h>

namespace mtrun::trainers {

class Ema {
 public:
  /// Starts as a copy of `parameters` (PyTorch's order: module.parameters()), which stay the same tensors. 0
  /// <= decay < 1.
  Ema(std::vector<at::Tensor> parameters, double decay);

  /// average += (1 - decay) * (parameters - average): once after each optimizer step.
  void Update();

  /// average := parameters.
  void Restart();

  /// average()[i] belongs to parameter i.
  const std::vector<at::Tensor>& average() const { return average_; }
  /// For checkpoints: names[i] and average()[i]; aliases, so copying into them sets the average.
  std::vector<std::pair<std::string, at::Tensor>> State(const std::vector<std::string>& names) const;

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

}  // namespace mtrun::trainers
