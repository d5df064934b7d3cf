// Compares the diffusion program's parts and samples with Python PyTorch (tests/testdata/parity/README.md).
#include <memory>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/splitmix.h"
#include "tests/trainers/models/support/parity_run.h"
#include "tests/trainers/support/parity.h"
#include "trainers/models/unet.h"
#include "trainers/tasks/diffusion_schedule.h"
#include "trainers/tasks/diffusion_task.h"

namespace mtrun::models {
namespace {

using nlohmann::json;
using testing::Curve;
using testing::ExpectClose;
using testing::ExpectLosses;
using testing::ExpectNorms;
using testing::ExpectRelative;
using testing::ExpectStateDict;
using testing::ParityRecipe;
using trainers::DiffusionSampler;
using trainers::DiffusionSchedule;
using trainers::DiffusionTarget;
using trainers::OptimizerOptions;
using trainers::testing::FillByHash;
using trainers::testing::ParityImages;
using trainers::testing::ParityJson;

UnetOptions Channels(int64_t channels) {
  UnetOptions options;
  options.channels = channels;
  return options;
}

std::shared_ptr<Unet> Net(const json& file) {
  auto net = std::make_shared<Unet>(0, Channels(16));
  FillByHash(*net, file["seed"]);
  return net;
}

at::Tensor HashNormal(const json& file, const std::string& name, at::IntArrayRef shape) {
  const NamedStream stream(file["seed"], name);
  at::Tensor values = at::empty(shape, at::kFloat);
  for (int64_t i = 0; i < values.numel(); ++i)
    values.data_ptr<float>()[i] = static_cast<float>(stream.Normal(i));
  return values;
}

/// The program's task with the files' noise and times, which belong to (step, row of the 64 images).
class FilesNoise : public trainers::DiffusionTask {
 public:
  FilesNoise(const json& file, const std::shared_ptr<Unet>& net, int64_t micro)
      : DiffusionTask(
            net,
            [net](const at::Tensor& x, const at::Tensor& t, const at::Tensor&) { return net->forward(x, t); },
            {}),
        file_(file),
        micro_(micro) {}

  std::vector<at::Tensor> Draw(int64_t n, const trainers::MicroBatchId& micro_batch) const override {
    const NamedStream t(file_["seed"], absl::StrCat("t/", micro_batch.step));
    std::vector<int64_t> times;
    std::vector<at::Tensor> noises;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t row =
          (micro_batch.step * file_["batch"].get<int64_t>() + micro_batch.micro_batch * micro_ + i) % 64;
      times.push_back(static_cast<int64_t>(t.At(row) % 1000));
      noises.push_back(HashNormal(file_, absl::StrCat("noise/", micro_batch.step, "/", row), {3, 32, 32}));
    }
    return {at::tensor(times), at::stack(noises).to(module().parameters().front().scalar_type())};
  }

 private:
  const json& file_;
  const int64_t micro_;
};

ParityRecipe Recipe(const json& file, const char* micro = "batch", int64_t steps = 20) {
  return {.state = {.optimizer = {.kind = OptimizerOptions::Kind::kAdamW, .weight_decay = 0.01}},
          .learning_rate = 2e-4,
          .batch = file["batch"],
          .micro = file[micro],
          .steps = steps};
}

Curve TrainOn(const json& file, const ParityRecipe& recipe, at::ScalarType dtype = at::kFloat,
              int world = 1) {
  return testing::Train([&] { return std::make_unique<FilesNoise>(file, Net(file), recipe.micro); }, recipe,
                        dtype, world);
}

/// Compares the mean and standard deviation, then the first 16 numbers.
void ExpectImage(const at::Tensor& got, const json& want, double tolerance) {
  ExpectClose(got.flatten().narrow(0, 0, 16), want["first_16"], tolerance);
  const double deviation = want["std"];
  EXPECT_NEAR(got.mean().item<double>(), want["mean"].get<double>(), tolerance * deviation);
  EXPECT_NEAR(got.std().item<double>(), deviation, tolerance * deviation);
}

TEST(parity, diffusion_names_and_shapes) {
  const json file = ParityJson("diffusion.json");
  ExpectStateDict(*std::make_shared<Unet>(0, Channels(16)), file);
  ExpectStateDict(*std::make_shared<Unet>(0, Channels(64)), file["channels_64"]);
}

TEST(parity, diffusion_forward) {
  const json file = ParityJson("diffusion.json");
  torch::NoGradGuard no_grad;
  const at::Tensor got =
      Net(file)->forward(ParityImages(at::kFloat).images.narrow(0, 0, 2), at::tensor({10, 500}, at::kLong));
  ExpectImage(got, file["eval_output"], 1e-4);
}

TEST(parity, diffusion_plain) {
  const json file = ParityJson("diffusion.json");
  const Curve got = TrainOn(file, Recipe(file));
  ExpectLosses(got.losses, file["plain"]["losses"], file);
  ExpectNorms(got, file["plain"], 1e-4, 1e-4);
}

TEST(parity, diffusion_accumulate) {
  const json file = ParityJson("diffusion.json");
  const Curve got = TrainOn(file, Recipe(file, "micro_batch"));
  ExpectLosses(got.losses, file["accumulate"]["losses"], file);
  ExpectNorms(got, file["accumulate"], 1e-4, 1e-4);
}

TEST(parity, diffusion_float64) {
  const json file = ParityJson("diffusion.json");
  ExpectRelative(TrainOn(file, Recipe(file), at::kDouble).losses, file["plain_losses_in_float64"], 1e-8);
}

TEST(parity, diffusion_schedules) {
  const json file = ParityJson("diffusion.json");
  const DiffusionSchedule linear(DiffusionSchedule::Kind::kLinear), cosine(DiffusionSchedule::Kind::kCosine);
  for (const auto& [t, want] : file["linear_schedule"].items()) {
    EXPECT_NEAR(linear.beta(std::stoll(t)), want[0].get<double>(), 1e-12);
    EXPECT_NEAR(linear.alpha_bar(std::stoll(t)), want[1].get<double>(), 1e-12);
  }
  for (const auto& [t, want] : file["cosine_schedule_alpha_bar"].items()) {
    EXPECT_NEAR(trainers::CosineAlphaBar(std::stod(t)), want.get<double>(), 1e-12);
    EXPECT_NEAR(cosine.alpha_bar(std::stoll(t)), want.get<double>(), 1e-9);
  }
}

TEST(parity, diffusion_same_at_2_and_3_workers) {
  const json file = ParityJson("diffusion.json");
  ParityRecipe recipe = Recipe(file, "batch", 6);
  recipe.micro = 3;
  for (const int world : {2, 3}) {
    SCOPED_TRACE(world);
    ExpectLosses(TrainOn(file, recipe, at::kFloat, world).losses, file["plain"]["losses"], file);
  }
}

TEST(parity, diffusion_ema_at_1_and_2_workers) {
  const json file = ParityJson("diffusion.json");
  ParityRecipe recipe = Recipe(file, "micro_batch", 5);
  recipe.state.ema_decay = 0.9999;
  for (const int world : {1, 2}) {
    SCOPED_TRACE(world);
    const Curve got = TrainOn(file, recipe, at::kFloat, world);
    for (const auto& [name, want] : file["ema_0.9999_after_5_steps"].items()) {
      ASSERT_TRUE(got.rest.count("ema/" + name)) << name;
      // Biases in front of a normalisation have only rounding as gradient, which Adam amplifies.
      EXPECT_NEAR(got.rest.at("ema/" + name)[1], want[1].get<double>(), 1e-5 * want[1].get<double>()) << name;
    }
  }
}

TEST(parity, diffusion_samples) {
  const json file = ParityJson("diffusion.json");
  const auto net = Net(file);
  const DiffusionSchedule schedule(DiffusionSchedule::Kind::kLinear);
  const DiffusionSampler sampler(
      schedule, DiffusionTarget::kEpsilon,
      [&](const at::Tensor& x, const at::Tensor& t) { return net->forward(x, t); },
      /*clip=*/false);
  const at::Tensor start = HashNormal(file, "sample/start", {2, 3, 32, 32});
  ExpectImage(sampler.Ddim(start, 50), file["ddim_50"], 1e-3);
  const auto noise = [&](int64_t t) { return HashNormal(file, absl::StrCat("sample/", t), {2, 3, 32, 32}); };
  ExpectImage(sampler.Ddpm(start, 49, noise), file["ddpm_last_50"], 1e-3);
}

}  // namespace
}  // namespace mtrun::models
