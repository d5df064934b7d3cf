// cnnB, vit and resnet18 against Python PyTorch (tests/testdata/parity/README.md).
#include <memory>

#include <gtest/gtest.h>

#include "tests/trainers/engine/support/parity.h"
#include "tests/trainers/models/support/parity_run.h"
#include "trainers/models/resnet18.h"
#include "trainers/models/resnet_cifar.h"
#include "trainers/models/vit.h"

namespace mtrun::models {
namespace {

using engine::OptimizerOptions;
using engine::Precision;
using engine::testing::FillByHash;
using engine::testing::ParityImages;
using engine::testing::ParityJson;
using nlohmann::json;
using testing::ClassifierLoss;
using testing::Curve;
using testing::ExpectClose;
using testing::ExpectLosses;
using testing::ExpectNorms;
using testing::ExpectRelative;
using testing::ExpectStateDict;
using testing::ParityRecipe;

template <typename Net>
std::shared_ptr<Net> Filled(std::shared_ptr<Net> net, const json& file, at::ScalarType dtype = at::kFloat) {
  FillByHash(*net, file["seed"]);
  net->to(dtype);
  net->train();
  return net;
}

template <typename Net>
Curve TrainOn(const std::shared_ptr<Net>& net, const ParityRecipe& recipe,
              at::ScalarType dtype = at::kFloat) {
  return testing::Train(
      *net, ClassifierLoss([net](const at::Tensor& x) { return net->forward(x); }, dtype, recipe.batch),
      recipe);
}

template <typename Net>
void ExpectForward(const std::shared_ptr<Net>& net, const at::Tensor& images, const json& file) {
  torch::NoGradGuard no_grad;
  net->eval();
  ExpectClose(net->forward(images.narrow(0, 0, 2)), file["eval_logits_rows_0_1"], 1e-4);
}

// ---- cnnB ----

std::shared_ptr<ResNetCifar> CnnB(const json& file, at::ScalarType dtype = at::kFloat) {
  return Filled(std::make_shared<ResNetCifar>(0), file, dtype);
}

ParityRecipe CnnBRecipe(const json& file, const char* micro = "batch", int64_t steps = 20) {
  return {.optimizer = {.kind = OptimizerOptions::Kind::kSgd},
          .learning_rate = 5e-4,
          .batch = file["batch"],
          .micro = file[micro],
          .steps = steps};
}

TEST(parity, cnnB_names_and_shapes) {
  ExpectStateDict(*std::make_shared<ResNetCifar>(0), ParityJson("cnnB.json"));
}

TEST(parity, cnnB_forward) {
  const json file = ParityJson("cnnB.json");
  ExpectForward(CnnB(file), ParityImages(at::kFloat).images, file);
}

TEST(parity, cnnB_plain) {
  const json file = ParityJson("cnnB.json");
  const Curve got = TrainOn(CnnB(file), CnnBRecipe(file));
  ExpectLosses(got.losses, file["plain"]["losses"], file);
  ExpectNorms(got, file["plain"], 2e-2, 1e-2);
}

TEST(parity, cnnB_accumulate) {
  const json file = ParityJson("cnnB.json");
  const Curve got = TrainOn(CnnB(file), CnnBRecipe(file, "micro_batch"));
  ExpectLosses(got.losses, file["accumulate"]["losses"], file);
  ExpectNorms(got, file["accumulate"], 2e-2, 1e-2);
}

TEST(parity, cnnB_float64) {
  const json file = ParityJson("cnnB.json");
  constexpr int64_t kSteps = 5;
  const Curve got = TrainOn(CnnB(file, at::kDouble), CnnBRecipe(file, "batch", kSteps), at::kDouble);
  json want = file["plain_losses_in_float64"];
  want.erase(want.begin() + kSteps, want.end());
  ExpectRelative(got.losses, want, 1e-8);
}

TEST(parity, cnnB_bfloat16) {
  const json file = ParityJson("cnnB.json");
  ParityRecipe recipe = CnnBRecipe(file, "batch", 5);
  recipe.precision = Precision::kBf16;
  ExpectRelative(TrainOn(CnnB(file), recipe).losses, file["bfloat16_autocast_losses"], 0.03);
}

// ---- vit ----

std::shared_ptr<VisionTransformer> Vit(const json& file, at::ScalarType dtype = at::kFloat) {
  VitOptions options;
  options.dropout = options.drop_path = 0;
  return Filled(std::make_shared<VisionTransformer>(0, options), file, dtype);
}

ParityRecipe VitRecipe(const json& file, const char* micro = "batch", int64_t steps = 20) {
  return {.optimizer = {.kind = OptimizerOptions::Kind::kAdamW, .weight_decay = 1e-4},
          .learning_rate = 3e-4,
          .batch = file["batch"],
          .micro = file[micro],
          .steps = steps};
}

TEST(parity, vit_names_and_shapes) {
  ExpectStateDict(*std::make_shared<VisionTransformer>(0), ParityJson("vit.json"));
}

TEST(parity, vit_forward) {
  const json file = ParityJson("vit.json");
  ExpectForward(Vit(file), ParityImages(at::kFloat).images, file);
}

TEST(parity, vit_plain) {
  const json file = ParityJson("vit.json");
  const Curve got = TrainOn(Vit(file), VitRecipe(file));
  ExpectLosses(got.losses, file["plain"]["losses"], file);
  ExpectNorms(got, file["plain"], 1e-4, 1e-4);
}

TEST(parity, vit_accumulate) {
  const json file = ParityJson("vit.json");
  const Curve got = TrainOn(Vit(file), VitRecipe(file, "micro_batch"));
  ExpectLosses(got.losses, file["accumulate"]["losses"], file);
  ExpectNorms(got, file["accumulate"], 1e-4, 1e-4);
}

TEST(parity, vit_float64) {
  const json file = ParityJson("vit.json");
  const Curve got = TrainOn(Vit(file, at::kDouble), VitRecipe(file), at::kDouble);
  ExpectRelative(got.losses, file["plain_losses_in_float64"], 1e-8);
}

TEST(parity, vit_bfloat16) {
  const json file = ParityJson("vit.json");
  ParityRecipe recipe = VitRecipe(file, "batch", 5);
  recipe.precision = Precision::kBf16;
  ExpectRelative(TrainOn(Vit(file), recipe).losses, file["bfloat16_autocast_losses"], 0.03);
}

// ---- resnet18 ----

at::Tensor At224(const at::Tensor& images) {
  return at::upsample_bilinear2d(images, {224, 224}, /*align_corners=*/false);
}

TEST(parity, resnet18_names_and_shapes) {
  ExpectStateDict(*std::make_shared<ResNet18>(0), ParityJson("resnet18.json"));
}

TEST(parity, resnet18_forward) {
  const json file = ParityJson("resnet18.json");
  ExpectForward(Filled(std::make_shared<ResNet18>(0), file),
                At224(ParityImages(at::kFloat).images.narrow(0, 0, 2)), file);
}

TEST(parity, resnet18_last_layer) {
  const json file = ParityJson("resnet18.json");
  const auto net = Filled(std::make_shared<ResNet18>(0), file);
  net->FreezeBackbone();
  net->train();
  const ParityRecipe recipe{.optimizer = {.kind = OptimizerOptions::Kind::kAdam},
                            .learning_rate = 1e-3,
                            .batch = file["batch"],
                            .micro = file["batch"],
                            .steps = 8};
  const Curve got = testing::Train(
      *net,
      ClassifierLoss([net](const at::Tensor& x) { return net->forward(x); }, at::kFloat, recipe.batch, At224),
      recipe);
  ExpectRelative(got.losses, file["plain"]["losses"], 1e-4);
  ExpectNorms(got, file["plain"], 1e-4, 1e-4);
}

}  // namespace
}  // namespace mtrun::models
