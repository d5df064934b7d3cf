// The exponential moving average of parameters, the weights that diffusion samples with. Not thread-safe.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <torch/types.h>

namespace mtrun::trainers {

class Ema {
 public:
  /// Starts as a copy of `parameters` (PyTorch's order: module.parameters()), which must stay the same
  /// tensors. REQUIRES: 0 <= decay < 1.
  Ema(std::vector<at::Tensor> parameters, double decay);

  /// Sets average += (1 - decay) * (parameters - average). Call it once after each optimizer step.
  void Update();

  /// Sets average := parameters.
  void Restart();

  /// average()[i] belongs to parameter i.
  const std::vector<at::Tensor>& average() const { return average_; }
  /// Returns names[i] and average()[i] for checkpoints; aliases, so copying into them sets the average.
  std::vector<std::pair<std::string, at::Tensor>> State(const std::vector<std::string>& names) const;

  /// Makes the model compute with the average while it lives. No optimizer step and no Update in that time.
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
