// Trains a network as tests/testdata/parity was made and compares with its numbers by the README's
// tolerances.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "nlohmann/json.hpp"
#include "trainers/engine/amp.h"
#include "trainers/engine/optimizer.h"
#include "trainers/engine/shards.h"

namespace mtrun::models::testing {

/// Mean loss over rows [begin, end) of the step's batch.
using LossOf = std::function<at::Tensor(int64_t step, engine::ShardRange rows)>;

struct ParityRecipe {
  engine::OptimizerOptions optimizer;
  double learning_rate = 0;
  int64_t batch = 0, micro = 0, steps = 0;
  engine::Precision precision = engine::Precision::kFp32;
  std::function<void()> after_step = [] {};
};

struct Curve {
  std::vector<double> losses;
  std::map<std::string, double> first_gradients;     // L2 norms of step 0
  std::map<std::string, std::vector<double>> after;  // sum and L2 norm of each entry of the state dict
};

/// Shards in sequence on one worker, running statistics moved once a step.
Curve Train(torch::nn::Module& module, const LossOf& loss, const ParityRecipe& recipe);

/// A classifier's loss over the parity images: row i of step k is image (k * batch + i) mod 64.
LossOf ClassifierLoss(
    std::function<at::Tensor(const at::Tensor&)> forward, at::ScalarType dtype, int64_t batch,
    const std::function<at::Tensor(const at::Tensor&)>& prepare = [](const at::Tensor& x) { return x; });

std::vector<double> SumAndNorm(const at::Tensor& tensor);

/// Names and shapes in the order of PyTorch's state_dict(), and the number of parameters.
void ExpectStateDict(const torch::nn::Module& module, const nlohmann::json& description);
/// Relative to the largest number wanted.
void ExpectClose(const at::Tensor& got, const nlohmann::json& want, double tolerance);
/// float32 losses: `file` has plain and plain_losses_in_float64.
void ExpectLosses(const std::vector<double>& got, const nlohmann::json& want, const nlohmann::json& file);
void ExpectRelative(const std::vector<double>& got, const nlohmann::json& want, double tolerance);
/// Norms of gradients and of the state after the run; parameters whose gradient is nothing but rounding are
/// left out.
void ExpectNorms(const Curve& got, const nlohmann::json& run, double gradient_tolerance,
                 double state_tolerance);

}  // namespace mtrun::models::testing
