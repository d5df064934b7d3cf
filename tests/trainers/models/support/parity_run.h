// Trains a network in the way that produced tests/testdata/parity, with the trainers' own step and any number
// of workers, and compares the results with its numbers by the tolerances of the README.
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
  std::map<std::string, std::vector<double>> rest;   // likewise for the rest of the train state
};

/// Returns the task of one rank, with its weights set.
using MakeTask = std::function<std::unique_ptr<trainers::Task>()>;

/// Trains with `world` ranks as single-core threads; row i of step k is image (k * batch + i) mod 64. Checks
/// that all ranks see the same results, and returns them once.
Curve Train(const MakeTask& make_task, const ParityRecipe& recipe, at::ScalarType dtype = at::kFloat,
            int world = 1);

std::vector<double> SumAndNorm(const at::Tensor& tensor);

/// Compares names and shapes, in the order of PyTorch's state_dict(), and the number of parameters.
void ExpectStateDict(const torch::nn::Module& module, const nlohmann::json& description);
/// Compares tensors; `tolerance` is relative to the largest number in `want`.
void ExpectClose(const at::Tensor& got, const nlohmann::json& want, double tolerance);
/// Compares float32 losses, of which there may be fewer than in `want`. `file` has plain and
/// plain_losses_in_float64.
void ExpectLosses(const std::vector<double>& got, const nlohmann::json& want, const nlohmann::json& file);
void ExpectRelative(const std::vector<double>& got, const nlohmann::json& want, double tolerance);
/// Returns why these cannot be the losses of a bfloat16 run, with all numbers, or "" if they can. Let the
/// effect of bfloat16 be the largest difference between `file`'s bfloat16 and float32 losses. Each loss must
/// be within three effects of `file`'s bfloat16 loss, and at least one must be a quarter of an effect away
/// from float32. The bounds cannot be tighter: bfloat16 rounds so coarsely that each processor's order of
/// additions gives other losses, in PyTorch itself 0.9 effects apart.
std::string WhyNotBfloat16(const std::vector<double>& got, const nlohmann::json& file);
/// Compares norms of gradients and of the final state, except if a gradient is only rounding.
void ExpectNorms(const Curve& got, const nlohmann::json& run, double gradient_tolerance,
                 double state_tolerance);

}  // namespace mtrun::models::testing
