// Trains a network as tests/testdata/parity was made, through the trainers' own step and with any number of
// workers, and compares with its numbers by the README's tolerances.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "nlohmann/json.hpp"
#include "trainers/step/task.h"
#include "trainers/step/train_state.h"
#include "trainers/step/train_step.h"

namespace mtrun::models::testing {

struct ParityRecipe {
  trainers::TrainState::Options state;
  double learning_rate = 0;
  int64_t batch = 0, micro = 0, steps = 0;
  trainers::Precision precision = trainers::Precision::kFp32;
  int64_t sync_micro_batches = 0;
};

struct Curve {
  std::vector<double> losses;
  std::map<std::string, double> first_gradients;     // L2 norms of step 0
  std::map<std::string, std::vector<double>> after;  // sum and L2 norm of each entry of the state dict
  std::map<std::string, std::vector<double>> rest;   // likewise of the train state's rest
};

/// The task of one rank, its weights set.
using MakeTask = std::function<std::unique_ptr<trainers::Task>()>;

/// `world` ranks as threads of one core each; row i of step k is image (k * batch + i) mod 64. What each rank
/// saw, which the test has found to be the same on all, is returned once.
Curve Train(const MakeTask& make_task, const ParityRecipe& recipe, at::ScalarType dtype = at::kFloat,
            int world = 1);

std::vector<double> SumAndNorm(const at::Tensor& tensor);

/// Names and shapes in the order of PyTorch's state_dict(), and the number of parameters.
void ExpectStateDict(const torch::nn::Module& module, const nlohmann::json& description);
/// Relative to the largest number wanted.
void ExpectClose(const at::Tensor& got, const nlohmann::json& want, double tolerance);
/// float32 losses: `file` has plain and plain_losses_in_float64. Fewer than wanted: the first ones.
void ExpectLosses(const std::vector<double>& got, const nlohmann::json& want, const nlohmann::json& file);
void ExpectRelative(const std::vector<double>& got, const nlohmann::json& want, double tolerance);
/// Why these are not the losses of a run in bfloat16, with all numbers; "" where they are: each is within
/// three times the effect of bfloat16 (the most by which `file`'s bfloat16 losses differ from its float32
/// ones) of `file`'s, and one is at least a quarter of it away from float32. Not closer: bfloat16 rounds so
/// coarsely that each processor's order of additions gives losses of its own, PyTorch's own ones 0.9 of the
/// effect apart.
std::string WhyNotBfloat16(const std::vector<double>& got, const nlohmann::json& file);
/// Norms of gradients and of the state after the run; parameters whose gradient is nothing but rounding are
/// left out.
void ExpectNorms(const Curve& got, const nlohmann::json& run, double gradient_tolerance,
                 double state_tolerance);

}  // namespace mtrun::models::testing
