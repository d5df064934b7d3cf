// Reads tests/testdata/parity, whose README defines weights, inputs and tolerances.
#pragma once

#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "nlohmann/json.hpp"
#include "trainers/input/micro_batch_source.h"

namespace mtrun::trainers::testing {

/// Returns MTRUN_PARITY_DIR, or the copy in the project (MT_SOURCE_DIR).
std::string ParityFolder();
/// Returns a JSON file of the folder; fails the test if it cannot be read.
nlohmann::json ParityJson(const std::string& name);
/// Sets every entry of the module's state dict from the hash generator (README, "Weights").
void FillByHash(const torch::nn::Module& module, uint64_t seed);

/// Returns the 64 test images, [64, 3, 32, 32] normalised, and their labels.
Batch ParityImages(at::ScalarType dtype);

/// A source whose step k with batch B uses rows (k*B + i) mod 64, in micro-batches of `micro` rows.
class ParitySource : public MicroBatchSource {
 public:
  ParitySource(Batch images, int64_t batch, int64_t micro)
      : images_(std::move(images)), batch_(batch), micro_(micro) {}
  int64_t micro_batches() const override { return (batch_ + micro_ - 1) / micro_; }
  int64_t SamplesInStep(int64_t) const override { return batch_; }
  int64_t SamplesInMicroBatch(int64_t, int64_t micro_batch) const override {
    return std::min(micro_, batch_ - micro_batch * micro_);
  }
  Batch Make(int64_t step, int64_t micro_batch) override;

 private:
  const Batch images_;
  const int64_t batch_, micro_;
};

}  // namespace mtrun::trainers::testing
