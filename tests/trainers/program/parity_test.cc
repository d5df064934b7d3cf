// The trainers must reproduce numbers of Python PyTorch (tests/testdata/parity/README.md).
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "base/splitmix.h"
#include "tests/trainers/support/parity.h"
#include "tests/trainers/support/rank_threads.h"
#include "trainers/models/cnn_a.h"
#include "trainers/optim/lr_schedule.h"
#include "trainers/optim/optimizer.h"
#include "trainers/parallel/data_parallel.h"
#include "trainers/step/confusion_matrix.h"
#include "trainers/step/train_step.h"
#include "trainers/tasks/classifier.h"
#include "trainers/weights/safetensors.h"

namespace mtrun::trainers {
namespace {

using nlohmann::json;
using testing::FillByHash;
using testing::ParityImages;
using testing::ParityJson;
using testing::ParitySource;
using testing::RunRanks;

constexpr int kSteps = 20;
constexpr double kLearningRate = 0.05;

struct Curve {
  std::vector<double> losses;
  std::map<std::string, double> first_gradients;
  std::map<std::string, std::vector<double>> after;  // sum and L2 norm
};

std::vector<double> SumAndNorm(const at::Tensor& t) {
  const at::Tensor wide = t.to(at::kDouble);
  return {wide.sum().item<double>(), wide.norm().item<double>()};
}

/// Trains the cnnA run of the parity files on one rank.
Curve TrainCnnA(uint64_t seed, int64_t batch, int64_t micro, at::ScalarType dtype, int rank, int world,
                const collectives::ProcessGroup& group) {
  const auto net = std::make_shared<models::CnnA>(seed);
  FillByHash(*net, seed);
  net->to(dtype);
  const auto task = Classify(AsModel(net), 10);
  ParitySource micro_batches(ParityImages(dtype), batch, micro);
  TrainState state(
      *net,
      {.optimizer = {
           .kind = OptimizerOptions::Kind::kSgd, .momentum = 0.9, .nesterov = true, .weight_decay = 5e-4}});
  DataParallel data_parallel(state.trained(), group);
  TrainStep runner(*task, micro_batches, data_parallel, state, {});
  Curve curve;
  for (int step = 0; step < kSteps; ++step) {
    const auto result = runner.Run(step, rank, world, kLearningRate);
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return curve;
    curve.losses.push_back(result->loss);
    if (step > 0) continue;
    for (const auto& p : net->named_parameters())
      curve.first_gradients[p.key()] = SumAndNorm(p.value().grad())[1];
  }
  for (const auto& [name, tensor] : StateDict(*net)) curve.after[name] = SumAndNorm(tensor);
  return curve;
}

/// Compares float32 losses by the README's section "Tolerances".
void ExpectLosses(const std::vector<double>& got, const json& plain, const json& plain_float64,
                  const json& float32) {
  ASSERT_EQ(got.size(), plain.size());
  double noise = 0;
  for (size_t k = 0; k < got.size(); ++k) {
    noise = std::max(noise, std::abs(float32[k].get<double>() - plain_float64[k].get<double>()));
    const double want = plain[k];
    EXPECT_NEAR(got[k], want, 20 * noise + 1e-5 * std::abs(want)) << "step " << k;
  }
}

void ExpectRun(const Curve& got, const json& want, const json& file) {
  ExpectLosses(got.losses, want["losses"], file["plain_losses_in_float64"], file["plain"]["losses"]);
  for (const auto& [name, norm] : want["grad_norm_step0"].items()) {
    ASSERT_TRUE(got.first_gradients.count(name)) << name;
    EXPECT_NEAR(got.first_gradients.at(name), norm.get<double>(), 1e-4 * norm.get<double>()) << name;
  }
  for (const auto& [name, after] : want["after"].items()) {
    ASSERT_TRUE(got.after.count(name)) << name;
    EXPECT_NEAR(got.after.at(name)[1], after[1].get<double>(), 1e-4 * after[1].get<double>()) << name;
  }
}

TEST(parity, generator) {
  const json file = ParityJson("generator.json");
  const uint64_t seed = file["seed"];
  for (const auto& [name, bits] : file["bits"].items()) {
    for (size_t i = 0; i < bits.size(); ++i) {
      EXPECT_EQ(NamedStream(seed, name).At(i), std::stoull(bits[i].get<std::string>(), nullptr, 16))
          << name << i;
    }
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(static_cast<float>(NamedStream(seed, "conv1.weight").Signed(i)),
              file["signed_float32_conv1.weight"][i].get<float>());
    EXPECT_FLOAT_EQ(static_cast<float>(NamedStream(seed, "noise/0/0").Normal(i)),
                    file["normal_noise/0/0"][i].get<float>());
  }
}

TEST(parity, cnnA_names_and_shapes) {
  const json file = ParityJson("cnnA.json");
  const models::CnnA net(0);
  const NamedTensors state = StateDict(net);
  ASSERT_EQ(state.size(), file["state_dict"].size());
  int64_t parameters = 0;
  for (size_t i = 0; i < state.size(); ++i) {
    EXPECT_EQ(state[i].first, file["state_dict"][i][0]);
    EXPECT_EQ(state[i].second.sizes().vec(), file["state_dict"][i][1].get<std::vector<int64_t>>());
    parameters += state[i].second.numel();
  }
  EXPECT_EQ(parameters, file["parameters"]);
}

TEST(parity, cnnA_forward) {
  const json file = ParityJson("cnnA.json");
  models::CnnA net(0);
  FillByHash(net, file["seed"]);
  net.eval();
  torch::NoGradGuard no_grad;
  const at::Tensor logits = net.forward(ParityImages(at::kFloat).images.narrow(0, 0, 2));
  const auto want = file["eval_logits_rows_0_1"].get<std::vector<std::vector<double>>>();
  double largest = 0;
  for (const auto& row : want) {
    for (const double x : row) largest = std::max(largest, std::abs(x));
  }
  for (int row = 0; row < 2; ++row) {
    for (int c = 0; c < 10; ++c) EXPECT_NEAR(logits[row][c].item<double>(), want[row][c], 1e-4 * largest);
  }
}

TEST(parity, cnnA_plain) {
  const json file = ParityJson("cnnA.json");
  ExpectRun(TrainCnnA(file["seed"], file["batch"], file["batch"], at::kFloat, 0, 1, nullptr), file["plain"],
            file);
}

TEST(parity, cnnA_float64) {
  const json file = ParityJson("cnnA.json");
  const Curve got = TrainCnnA(file["seed"], file["batch"], file["batch"], at::kDouble, 0, 1, nullptr);
  ASSERT_EQ(got.losses.size(), file["plain_losses_in_float64"].size());
  for (size_t k = 0; k < got.losses.size(); ++k) {
    const double want = file["plain_losses_in_float64"][k];
    EXPECT_NEAR(got.losses[k], want, 1e-9 * want) << "step " << k;
  }
}

TEST(parity, cnnA_accumulation) {
  const json file = ParityJson("cnnA.json");
  ExpectRun(TrainCnnA(file["seed"], file["batch"], file["micro_batch"], at::kFloat, 0, 1, nullptr),
            file["accumulate"], file);
}

/// Covers micro-batches of 8, 6 (a short last one), 4 and 1; with 8 a third worker is idle.
TEST(parity, cnnA_same_at_1_2_3_workers) {
  const json file = ParityJson("cnnA.json");
  for (const int64_t micro : {8, 6, 4, 1}) {
    for (const int world : {1, 2, 3}) {
      SCOPED_TRACE(absl::StrCat("micro-batch ", micro, ", workers ", world));
      std::vector<Curve> curves(world);
      RunRanks(world, [&](int rank, const collectives::ProcessGroup& group) {
        curves[rank] = TrainCnnA(file["seed"], file["batch"], micro, at::kFloat, rank, world, group);
      });
      for (const Curve& curve : curves) {
        ExpectRun(curve, file["plain"], file);
        EXPECT_EQ(curve.losses, curves[0].losses);
        EXPECT_EQ(curve.after, curves[0].after);
      }
    }
  }
}

TEST(parity, cnnA_float64_same_at_1_2_3_workers) {
  const json file = ParityJson("cnnA.json");
  for (const int world : {1, 2, 3}) {
    std::vector<Curve> curves(world);
    RunRanks(world, [&](int rank, const collectives::ProcessGroup& group) {
      curves[rank] = TrainCnnA(file["seed"], file["batch"], 4, at::kDouble, rank, world, group);
    });
    for (const Curve& curve : curves) {
      ASSERT_EQ(curve.losses.size(), static_cast<size_t>(kSteps));
      for (int k = 0; k < kSteps; ++k) {
        const double want = file["plain_losses_in_float64"][k];
        EXPECT_NEAR(curve.losses[k], want, 1e-9 * want) << "workers " << world << " step " << k;
      }
    }
  }
}

OptimizerOptions OptionsOf(const std::string& name, const json& given) {
  OptimizerOptions options;
  if (name.starts_with("adam")) {
    options.kind = name == "adamw" ? OptimizerOptions::Kind::kAdamW : OptimizerOptions::Kind::kAdam;
  }
  options.momentum = given.value("momentum", 0.0);
  options.nesterov = given.value("nesterov", false);
  options.weight_decay = given.value("weight_decay", 0.0);
  return options;
}

TEST(parity, optimizers) {
  const json file = ParityJson("optimizers.json");
  const uint64_t seed = file["seed"];
  const auto signed_floats = [&](const std::string& name) {
    at::Tensor t = at::empty({8}, at::kFloat);
    for (int i = 0; i < 8; ++i)
      t.data_ptr<float>()[i] = static_cast<float>(NamedStream(seed, name).Signed(i));
    return t;
  };
  int compared = 0;
  for (const auto& [name, recipe] : file.items()) {
    if (!recipe.is_object()) continue;
    SCOPED_TRACE(name);
    const at::Tensor parameter = signed_floats("toy"), gradient = at::zeros({8}, at::kFloat);
    const auto optimizer = MakeOptimizer(OptionsOf(name, recipe["options"]), {parameter});
    optimizer->BindGradients({gradient});
    for (size_t step = 0; step < recipe["trace"].size(); ++step) {
      gradient.copy_(signed_floats(absl::StrCat("toy.grad/", step)));
      optimizer->Step(recipe["options"]["lr"]);
      for (int i = 0; i < 8; ++i) {
        EXPECT_NEAR(parameter[i].item<double>(), recipe["trace"][step][i].get<double>(), 1e-6)
            << "step " << step;
      }
    }
    ++compared;
  }
  EXPECT_EQ(compared, 5);
}

void ExpectSchedule(const LrSchedule& schedule, const json& want) {
  ASSERT_EQ(want.size(), 100u);
  for (int64_t k = 0; k < 100; ++k)
    EXPECT_NEAR(LearningRate(schedule, k), want[k].get<double>(), 1e-6 * 0.1) << k;
}

TEST(parity, schedules) {
  const json file = ParityJson("schedules.json");
  ExpectSchedule({.kind = LrSchedule::Kind::kCosine, .base = 0.1, .steps = 100}, file["cosine_to_zero"]);
  ExpectSchedule({.kind = LrSchedule::Kind::kOneCycle, .base = 0.1, .steps = 100},
                 file["one_cycle_max_0.1_pct_0.3_div_25_final_1e4_cosine"]);
  ExpectSchedule({.kind = LrSchedule::Kind::kCosine, .base = 0.1, .steps = 100, .warmup_steps = 10},
                 file["linear_warmup_10_from_0.1x_then_cosine_90"]);
}

TEST(parity, metrics) {
  const json file = ParityJson("metrics.json");
  const uint64_t seed = file["seed"];
  ConfusionMatrix matrix(10);
  for (uint64_t i = 0; i < 1000; ++i) {
    const int64_t truth = static_cast<int64_t>(NamedStream(seed, "label").At(i) % 10);
    const bool hit = NamedStream(seed, "hit").Uniform(i) < 0.7;
    matrix.Add(truth, hit ? truth : static_cast<int64_t>(NamedStream(seed, "guess").At(i) % 10));
  }
  EXPECT_EQ(matrix.Accuracy(), file["overall"].get<double>());
  for (int c = 0; c < 10; ++c) {
    for (int p = 0; p < 10; ++p)
      EXPECT_EQ(matrix.at(c, p), file["confusion_rows_actual"][c][p].get<int64_t>());
    const ClassFigures f = matrix.Figures(c);
    const json& want = file["per_class"][c];
    EXPECT_EQ(f.accuracy, want["accuracy"].get<double>());
    EXPECT_EQ(f.precision, want["precision"].get<double>());
    EXPECT_EQ(f.recall, want["recall"].get<double>());
    EXPECT_EQ(f.f1, want["f1"].get<double>());
    EXPECT_EQ(f.specificity, want["specificity"].get<double>());
  }
}

}  // namespace
}  // namespace mtrun::trainers
