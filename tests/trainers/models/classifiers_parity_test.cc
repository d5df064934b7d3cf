// Compares cnnB, vit and resnet18 at 1 to 3 workers with Python PyTorch (tests/testdata/parity/README.md).
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "tests/trainers/models/support/parity_run.h"
#include "tests/trainers/support/parity.h"
#include "trainers/models/resnet.h"
#include "trainers/models/vit.h"
#include "trainers/tasks/classifier.h"

namespace mtrun::models {
namespace {

using nlohmann::json;
using testing::Curve;
using testing::ExpectClose;
using testing::ExpectLosses;
using testing::ExpectNorms;
using testing::ExpectRelative;
using testing::ExpectStateDict;
using testing::MakeTask;
using testing::ParityRecipe;
using testing::Train;
using testing::WhyNotBfloat16;
using trainers::OptimizerOptions;
using trainers::Precision;
using trainers::testing::FillByHash;
using trainers::testing::ParityImages;
using trainers::testing::ParityJson;

template <typename Net>
std::shared_ptr<Net> Filled(std::shared_ptr<Net> net, const json& file) {
  FillByHash(*net, file["seed"]);
  return net;
}

template <typename Net>
void ExpectForward(const std::shared_ptr<Net>& net, const at::Tensor& images, const json& file) {
  torch::NoGradGuard no_grad;
  net->eval();
  ExpectClose(net->forward(images.narrow(0, 0, 2)), file["eval_logits_rows_0_1"], 1e-4);
}

/// Losses of float32, or of rounding ten times as coarse, must not pass as bfloat16.
TEST(parity, bfloat16_is_told_from_float32) {
  for (const char* name : {"cnnB.json", "vit.json"}) {
    SCOPED_TRACE(name);
    const json file = ParityJson(name);
    const auto want = file["bfloat16_autocast_losses"].get<std::vector<double>>();
    std::vector<double> plain = file["plain"]["losses"], exact = file["plain_losses_in_float64"],
                        coarse = want;
    plain.resize(want.size());
    exact.resize(want.size());
    for (size_t k = 0; k < want.size(); ++k) coarse[k] += 10 * (want[k] - plain[k]);
    EXPECT_EQ(WhyNotBfloat16(want, file), "");
    EXPECT_THAT(WhyNotBfloat16(plain, file), ::testing::HasSubstr("away from float32's losses"));
    EXPECT_THAT(WhyNotBfloat16(exact, file), ::testing::HasSubstr("away from float32's losses"));
    EXPECT_THAT(WhyNotBfloat16(coarse, file), ::testing::HasSubstr("of bfloat16's losses"));
  }
}

// ---- cnnB ----

MakeTask CnnB(const json& file) {
  return [&file] {
    return trainers::Classify(trainers::AsModel(Filled(std::make_shared<ResNet>(0, kResNet32), file)), 10);
  };
}

/// Returns the recipe of the file; `micro` is "batch" or "micro_batch".
ParityRecipe CnnBRecipe(const json& file, const char* micro = "batch", int64_t steps = 20) {
  return {.state = {.optimizer = {.kind = OptimizerOptions::Kind::kSgd}},
          .learning_rate = 5e-4,
          .batch = file["batch"],
          .micro = file[micro],
          .steps = steps};
}

TEST(parity, cnnB_names_and_shapes) {
  ExpectStateDict(*std::make_shared<ResNet>(0, kResNet32), ParityJson("cnnB.json"));
}

TEST(parity, cnnB_forward) {
  const json file = ParityJson("cnnB.json");
  ExpectForward(Filled(std::make_shared<ResNet>(0, kResNet32), file), ParityImages(at::kFloat).images, file);
}

TEST(parity, cnnB_plain) {
  const json file = ParityJson("cnnB.json");
  const Curve got = Train(CnnB(file), CnnBRecipe(file));
  ExpectLosses(got.losses, file["plain"]["losses"], file);
  ExpectNorms(got, file["plain"], 2e-2, 1e-2);
}

/// Micro-batches are normalised separately; running statistics move once a step. A third worker is idle.
TEST(parity, cnnB_accumulate_at_3_workers) {
  const json file = ParityJson("cnnB.json");
  const Curve got = Train(CnnB(file), CnnBRecipe(file, "micro_batch"), at::kFloat, 3);
  ExpectLosses(got.losses, file["accumulate"]["losses"], file);
  ExpectNorms(got, file["accumulate"], 2e-2, 1e-2);
}

TEST(parity, cnnB_accumulate_same_at_1_and_2_workers) {
  const json file = ParityJson("cnnB.json");
  for (const int world : {1, 2}) {
    SCOPED_TRACE(world);
    const Curve got = Train(CnnB(file), CnnBRecipe(file, "micro_batch", 3), at::kFloat, world);
    ExpectLosses(got.losses, file["accumulate"]["losses"], file);
  }
}

/// With SyncBatchNorm over both micro-batches, the run equals the plain run, including running statistics.
TEST(parity, cnnB_sync_batch_norm_at_2_workers) {
  const json file = ParityJson("cnnB.json");
  ParityRecipe recipe = CnnBRecipe(file, "micro_batch");
  recipe.sync_micro_batches = 2;
  const Curve got = Train(CnnB(file), recipe, at::kFloat, 2);
  ExpectLosses(got.losses, file["plain"]["losses"], file);
  ExpectNorms(got, file["plain"], 2e-2, 1e-2);
}

/// In float64 the tolerance covers only a different order of additions. 16 rows in micro-batches of 6, 6 and
/// 4 give uneven ranges for two workers, and leave one of four without any.
TEST(parity, cnnB_sync_batch_norm_float64_same_at_1_2_3_4_workers) {
  const json file = ParityJson("cnnB.json");
  ParityRecipe recipe = CnnBRecipe(file, "batch", 2);
  recipe.micro = 6;
  recipe.sync_micro_batches = 3;
  for (const int world : {1, 2, 3, 4}) {
    SCOPED_TRACE(world);
    ExpectRelative(Train(CnnB(file), recipe, at::kDouble, world).losses, file["plain_losses_in_float64"],
                   1e-8);
  }
}

TEST(parity, cnnB_float64) {
  const json file = ParityJson("cnnB.json");
  ExpectRelative(Train(CnnB(file), CnnBRecipe(file, "batch", 3), at::kDouble).losses,
                 file["plain_losses_in_float64"], 1e-8);
}

TEST(parity, cnnB_bfloat16) {
  const json file = ParityJson("cnnB.json");
  ParityRecipe recipe = CnnBRecipe(file, "batch", 5);
  recipe.precision = Precision::kBf16;
  EXPECT_EQ(WhyNotBfloat16(Train(CnnB(file), recipe).losses, file), "");
}

// ---- vit ----

MakeTask Vit(const json& file) {
  return [&file] {
    VitOptions options;
    options.dropout = options.drop_path = 0;
    return trainers::Classify(
        trainers::AsModel(Filled(std::make_shared<VisionTransformer>(0, options), file)), 10);
  };
}

ParityRecipe VitRecipe(const json& file, const char* micro = "batch", int64_t steps = 20) {
  return {.state = {.optimizer = {.kind = OptimizerOptions::Kind::kAdamW, .weight_decay = 1e-4}},
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
  ExpectForward(Filled(std::make_shared<VisionTransformer>(0), file), ParityImages(at::kFloat).images, file);
}

TEST(parity, vit_plain) {
  const json file = ParityJson("vit.json");
  const Curve got = Train(Vit(file), VitRecipe(file));
  ExpectLosses(got.losses, file["plain"]["losses"], file);
  ExpectNorms(got, file["plain"], 1e-4, 1e-4);
}

TEST(parity, vit_accumulate) {
  const json file = ParityJson("vit.json");
  const Curve got = Train(Vit(file), VitRecipe(file, "micro_batch"));
  ExpectLosses(got.losses, file["accumulate"]["losses"], file);
  ExpectNorms(got, file["accumulate"], 1e-4, 1e-4);
}

/// Any split of the rows over any number of workers equals the plain run.
TEST(parity, vit_same_at_2_and_3_workers) {
  const json file = ParityJson("vit.json");
  ParityRecipe recipe = VitRecipe(file);
  recipe.micro = 6;
  for (const int world : {2, 3}) {
    SCOPED_TRACE(world);
    const Curve got = Train(Vit(file), recipe, at::kFloat, world);
    ExpectLosses(got.losses, file["plain"]["losses"], file);
    ExpectNorms(got, file["plain"], 1e-4, 1e-4);
  }
}

TEST(parity, vit_float64) {
  const json file = ParityJson("vit.json");
  ExpectRelative(Train(Vit(file), VitRecipe(file), at::kDouble).losses, file["plain_losses_in_float64"],
                 1e-8);
}

TEST(parity, vit_bfloat16) {
  const json file = ParityJson("vit.json");
  ParityRecipe recipe = VitRecipe(file, "batch", 5);
  recipe.precision = Precision::kBf16;
  EXPECT_EQ(WhyNotBfloat16(Train(Vit(file), recipe).losses, file), "");
}

// ---- resnet ----

at::Tensor At224(const at::Tensor& images) {
  return at::upsample_bilinear2d(images, {224, 224}, /*align_corners=*/false);
}

std::string ResNetFile(int depth) { return absl::StrCat("resnet", depth, ".json"); }

/// Makes the task of learning the last layer of a frozen network.
MakeTask LastOfResNet(int depth, const json& file) {
  return [depth, &file] {
    const auto net = Filled(std::make_shared<ResNet>(0, ResNet224(depth)), file);
    net->FreezeBackbone();
    return trainers::Classify({net, [net](const at::Tensor& x) { return net->forward(At224(x)); }, {}}, 10);
  };
}

ParityRecipe ResNetRecipe(const json& file, int64_t micro, int64_t steps) {
  return {.state = {.optimizer = {.kind = OptimizerOptions::Kind::kAdam}},
          .learning_rate = 1e-3,
          .batch = file["batch"],
          .micro = micro,
          .steps = steps};
}

TEST(parity, resnet_names_and_shapes) {
  for (const int depth : {18, 34, 50}) {
    SCOPED_TRACE(depth);
    ExpectStateDict(*std::make_shared<ResNet>(0, ResNet224(depth)), ParityJson(ResNetFile(depth)));
  }
}

TEST(parity, resnet_forward) {
  const at::Tensor images = At224(ParityImages(at::kFloat).images.narrow(0, 0, 2));
  for (const int depth : {18, 34, 50}) {
    SCOPED_TRACE(depth);
    const json file = ParityJson(ResNetFile(depth));
    ExpectForward(Filled(std::make_shared<ResNet>(0, ResNet224(depth)), file), images, file);
  }
}

TEST(parity, resnet34_and_50_last_layer) {
  for (const int depth : {34, 50}) {
    SCOPED_TRACE(depth);
    const json file = ParityJson(ResNetFile(depth));
    const std::vector<double> want = file["plain"]["losses"];
    const Curve got = Train(LastOfResNet(depth, file), ResNetRecipe(file, file["batch"], 3));
    ExpectRelative(got.losses, json(std::vector<double>(want.begin(), want.begin() + 3)), 1e-4);
  }
}

TEST(parity, resnet18_last_layer_at_1_2_3_workers) {
  const json file = ParityJson("resnet18.json");
  for (const int world : {1, 2, 3}) {
    SCOPED_TRACE(world);
    const Curve got = Train(LastOfResNet(18, file), ResNetRecipe(file, 3, 8), at::kFloat, world);
    ExpectRelative(got.losses, file["plain"]["losses"], 1e-4);
    ExpectNorms(got, file["plain"], 1e-4, 1e-4);
  }
}

}  // namespace
}  // namespace mtrun::models
