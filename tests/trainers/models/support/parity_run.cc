#include "tests/trainers/models/support/parity_run.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "absl/strings/str_format.h"
#include "tests/trainers/support/parity.h"
#include "tests/trainers/support/rank_threads.h"
#include "trainers/parallel/data_parallel.h"

namespace mtrun::models::testing {
namespace {

using nlohmann::json;

/// Gradients below this share of the largest one are rounding errors: that of a bias in front of a
/// normalisation is 1e-8 in the U-Net with one channel a group. Adam turns them into full-size steps, so
/// neither they nor their effects can be compared.
constexpr double kNoise = 1e-6;

std::vector<std::pair<std::string, at::Tensor>> PythonStateDict(const torch::nn::Module& module) {
  std::vector<std::pair<std::string, at::Tensor>> state;
  const auto add = [&](const std::string& prefix, const torch::nn::Module& m) {
    for (const auto& p : m.named_parameters(/*recurse=*/false))
      state.emplace_back(prefix + p.key(), p.value());
    for (const auto& b : m.named_buffers(/*recurse=*/false)) state.emplace_back(prefix + b.key(), b.value());
  };
  add("", module);
  for (const auto& m : module.named_modules("", /*include_self=*/false)) add(m.key() + ".", *m.value());
  return state;
}

}  // namespace

std::vector<double> SumAndNorm(const at::Tensor& tensor) {
  const at::Tensor wide = tensor.detach().to(at::kDouble);
  return {wide.sum().item<double>(), wide.norm().item<double>()};
}

namespace {

Curve TrainRank(trainers::Task& task, const ParityRecipe& recipe, at::ScalarType dtype, int rank, int world,
                const collectives::ProcessGroup& group) {
  task.module().to(dtype);
  task.module().train();
  trainers::testing::ParitySource micro_batches(trainers::testing::ParityImages(dtype), recipe.batch,
                                                recipe.micro);
  trainers::TrainState state(task.module(), recipe.state);
  trainers::DataParallel data_parallel(state.trained(), group);
  trainers::TrainStep runner(
      task, micro_batches, data_parallel, state,
      {.precision = recipe.precision, .sync_micro_batches = recipe.sync_micro_batches});
  Curve curve;
  for (int64_t step = 0; step < recipe.steps; ++step) {
    const auto result = runner.Run(step, rank, world, recipe.learning_rate);
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return curve;
    curve.losses.push_back(result->loss);
    if (step > 0) continue;
    for (const auto& p : task.module().named_parameters()) {
      if (p.value().requires_grad()) curve.first_gradients[p.key()] = SumAndNorm(p.value().grad())[1];
    }
  }
  for (const auto& [name, tensor] : state.Weights()) curve.after[name] = SumAndNorm(tensor);
  for (const auto& [name, tensor] : state.Rest()) curve.rest[name] = SumAndNorm(tensor);
  return curve;
}

}  // namespace

Curve Train(const MakeTask& make_task, const ParityRecipe& recipe, at::ScalarType dtype, int world) {
  at::set_num_threads(1);
  std::vector<Curve> curves(world);
  trainers::testing::RunRanks(world, [&](int rank, const collectives::ProcessGroup& group) {
    const auto task = make_task();
    curves[rank] = TrainRank(*task, recipe, dtype, rank, world, group);
  });
  for (const Curve& curve : curves) {
    EXPECT_EQ(curve.losses, curves[0].losses);
    EXPECT_EQ(curve.after, curves[0].after);
    EXPECT_EQ(curve.rest, curves[0].rest);
  }
  return curves[0];
}

void ExpectStateDict(const torch::nn::Module& module, const json& description) {
  const auto state = PythonStateDict(module);
  ASSERT_EQ(state.size(), description["state_dict"].size());
  for (size_t i = 0; i < state.size(); ++i) {
    EXPECT_EQ(state[i].first, description["state_dict"][i][0]);
    EXPECT_EQ(state[i].second.sizes().vec(), description["state_dict"][i][1].get<std::vector<int64_t>>())
        << state[i].first;
  }
  int64_t parameters = 0;
  for (const auto& p : module.parameters()) parameters += p.numel();
  EXPECT_EQ(parameters, description["parameters"].get<int64_t>());
}

void ExpectClose(const at::Tensor& got, const json& want, double tolerance) {
  std::vector<double> flat;
  for (const json& item : want) {
    if (item.is_array()) {
      for (const json& x : item) flat.push_back(x);
    } else {
      flat.push_back(item);
    }
  }
  ASSERT_EQ(got.numel(), static_cast<int64_t>(flat.size()));
  const at::Tensor expected = at::tensor(flat, at::kDouble);
  const at::Tensor error = (got.detach().to(at::kDouble).flatten() - expected).abs();
  EXPECT_LE(error.max().item<double>(), tolerance * expected.abs().max().item<double>());
}

namespace {

/// The permitted distance of a float32 loss from the file's; it grows with the step like float32's error.
class Float32Tolerance {
 public:
  explicit Float32Tolerance(const json& file)
      : plain_(file["plain"]["losses"]), exact_(file["plain_losses_in_float64"]) {}
  double Next(double want) {
    noise_ = std::max(noise_, std::abs(plain_[step_].get<double>() - exact_[step_].get<double>()));
    ++step_;
    return 20 * noise_ + 1e-5 * std::abs(want);
  }

 private:
  const json &plain_, &exact_;
  size_t step_ = 0;
  double noise_ = 0;
};

}  // namespace

void ExpectLosses(const std::vector<double>& got, const json& want, const json& file) {
  ASSERT_LE(got.size(), want.size());
  ASSERT_FALSE(got.empty());
  Float32Tolerance tolerance(file);
  for (size_t k = 0; k < got.size(); ++k) {
    const double w = want[k];
    EXPECT_NEAR(got[k], w, tolerance.Next(w)) << "step " << k;
  }
}

std::string WhyNotBfloat16(const std::vector<double>& got, const json& file) {
  const auto plain = file["plain"]["losses"].get<std::vector<double>>();
  const auto want = file["bfloat16_autocast_losses"].get<std::vector<double>>();
  if (got.size() != want.size()) return absl::StrFormat("%d losses, not %d", got.size(), want.size());
  double effect = 0;
  for (size_t k = 0; k < want.size(); ++k) effect = std::max(effect, std::abs(want[k] - plain[k]));
  const double near = 3 * effect, away = effect / 4;
  double farthest = 0, moved = 0;
  Float32Tolerance tolerance(file);
  std::string numbers;
  for (size_t k = 0; k < want.size(); ++k) {
    farthest = std::max(farthest, std::abs(got[k] - want[k]));
    // Once float32's own error may be this large, the distance to it means nothing.
    const bool tells = tolerance.Next(plain[k]) < away;
    if (tells) moved = std::max(moved, std::abs(got[k] - plain[k]));
    absl::StrAppendFormat(
        &numbers,
        "\nstep %d: float32 %.6f, bfloat16 %.6f, ours %.6f: %.2f effects from bfloat16, %.2f "
        "from float32%s",
        k, plain[k], want[k], got[k], std::abs(got[k] - want[k]) / effect,
        std::abs(got[k] - plain[k]) / effect, tells ? "" : " (not compared)");
  }
  // Not `farthest > near`, because a NaN loss must fail.
  if (!(farthest <= near)) return absl::StrFormat("not within %.6f of bfloat16's losses:%s", near, numbers);
  if (!(moved >= away)) return absl::StrFormat("never %.6f away from float32's losses:%s", away, numbers);
  return "";
}

void ExpectRelative(const std::vector<double>& got, const json& want, double tolerance) {
  ASSERT_LE(got.size(), want.size());
  ASSERT_FALSE(got.empty());
  for (size_t k = 0; k < got.size(); ++k) {
    const double w = want[k];
    EXPECT_NEAR(got[k], w, tolerance * std::abs(w)) << "step " << k;
  }
}

void ExpectNorms(const Curve& got, const json& run, double gradient_tolerance, double state_tolerance) {
  double largest = 0;
  for (const json& norm : run["grad_norm_step0"]) largest = std::max(largest, norm.get<double>());
  const double noise = kNoise * largest;
  std::set<std::string> noisy;
  EXPECT_EQ(got.first_gradients.size(), run["grad_norm_step0"].size());
  for (const auto& [name, norm] : run["grad_norm_step0"].items()) {
    ASSERT_TRUE(got.first_gradients.count(name)) << name;
    const double want = norm;
    if (want < noise) noisy.insert(name);
    EXPECT_NEAR(got.first_gradients.at(name), want, want < noise ? noise : gradient_tolerance * want) << name;
  }
  EXPECT_EQ(got.after.size(), run["after"].size());
  for (const auto& [name, after] : run["after"].items()) {
    // The script counts micro-batches; this code counts steps.
    if (name.ends_with("num_batches_tracked") || noisy.count(name) != 0) continue;
    ASSERT_TRUE(got.after.count(name)) << name;
    EXPECT_NEAR(got.after.at(name)[1], after[1].get<double>(), state_tolerance * after[1].get<double>())
        << name;
  }
}

}  // namespace mtrun::models::testing
