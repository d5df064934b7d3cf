// resnet18: transfer learning with ResNet-18 for images of 224x224. Its body comes from a file (torchvision's
// resnet18-*.pth or safetensors) and stands still, its last layer is new; --train all trains everything, also
// without a file. Smaller images are enlarged on the device. Flags and defaults are those of the program that
// came before, which could be started by hand: --dist_url, --world_size, --rank, --gpu_ids.
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainers/engine/classifier.h"   // cross-entropy, right predictions, confusion matrix
#include "trainers/engine/program.h"      // settings, data, workers, steps, evaluation, report
#include "trainers/engine/safetensors.h"  // weights from files
#include "trainers/models/resnet18.h"     // the network

namespace mtrun {
namespace {

const engine::Recipe kRecipe = {
    {"epochs", "50"},           {"batch_size", "32"}, {"accumulation_steps", "4"}, {"optimizer", "adam"},
    {"learning_rate", "0.001"}, {"amp", "auto"},      {"warmup_steps", "100"},
};

const std::vector<SettingSpec> kSettings = {
    {.name = "weights",
     .help = "file with the weights to start from: torchvision's resnet18-*.pth, or safetensors",
     .group = "Transfer"},
    {.name = "train",
     .default_text = "auto",
     .help = "what learns; auto: the last layer where there are --weights, else everything",
     .group = "Transfer",
     .choices = {"auto", "last", "all"}},
    {.name = "normalize",
     .default_text = "half",
     .help = "pixels: half (x - 0.5) / 0.5, or imagenet by the mean and deviation of torchvision's weights",
     .group = "Transfer",
     .choices = {"half", "imagenet"}},
};

const std::vector<SettingSpec> kLaunchSettings = {
    {.name = "dist_url",
     .default_text = "tcp://127.0.0.1:23456",
     .help = "where the workers meet, when neither mtrun nor torchrun started them",
     .group = "Start by hand"},
    {.name = "world_size",
     .kind = SettingSpec::Kind::kInt,
     .default_text = "1",
     .help = "workers of the job, likewise",
     .group = "Start by hand",
     .min = 1},
    {.name = "rank",
     .kind = SettingSpec::Kind::kInt,
     .default_text = "0",
     .help = "number of this worker, likewise",
     .group = "Start by hand",
     .min = 0},
    {.name = "gpu_ids",
     .default_text = "0",
     .help = "GPUs that this worker may use",
     .group = "Start by hand"},
};

/// From pixels (x - 0.5) / 0.5 to what torchvision's weights were trained with.
at::Tensor ByImageNet(const at::Tensor& images) {
  const at::TensorOptions like = images.options().requires_grad(false);
  // Filled on the device: a copy from here would wait for it.
  const auto channels = [&](double r, double g, double b) {
    const auto one = [&](double value) { return at::full({1, 1, 1, 1}, value, like); };
    return at::cat({one(r), one(g), one(b)}, 1);
  };
  return (images * 0.5 + 0.5 - channels(0.485, 0.456, 0.406)) / channels(0.229, 0.224, 0.225);
}

absl::StatusOr<std::unique_ptr<engine::Task>> MakeTask(const engine::TaskInputs& in) {
  const auto net = std::make_shared<models::ResNet18>(in.options.seed, in.classes);
  const std::string weights = in.settings.Text("weights"), train = in.settings.Text("train");
  if (!weights.empty()) MT_RETURN_IF_ERROR(engine::InitFrom(weights, *net, /*last_layer=*/"fc."));
  const bool only_last = train == "last" || (train == "auto" && !weights.empty());
  if (only_last) net->FreezeBackbone();
  if (only_last && weights.empty() && in.options.init_from.empty() && in.first) {
    log::Warning("--train last without --weights: the last layer learns on top of random features");
  }
  const int64_t size = in.image_size;
  const bool imagenet = in.settings.Text("normalize") == "imagenet";
  return engine::Classify(
      {net,
       [=](const at::Tensor& images) {
         const bool small = images.size(2) != size;
         const at::Tensor x =
             small ? at::upsample_bilinear2d(images, {size, size}, /*align_corners=*/false) : images;
         return net->forward(imagenet ? ByImageNet(x) : x);
       },
       {}},
      in.classes);
}

/// tcp://HOST:PORT and rank as the variables that a launcher would have set.
absl::Status Launch(const Settings& settings, EnvironmentMap& environment) {
  if (settings.SourceOf("gpu_ids") != SettingSource::kDefault) {
    // CUDA starts later and reads it then; no other thread runs yet.
    setenv("CUDA_VISIBLE_DEVICES", settings.Text("gpu_ids").c_str(), 1);
  }
  if (IsLaunched(environment) || settings.Int("world_size") == 1) return absl::OkStatus();
  const std::string url = settings.Text("dist_url");
  absl::string_view rest = url;
  const size_t colon = url.rfind(':');
  int port = 0;
  if (!absl::ConsumePrefix(&rest, "tcp://") || colon == std::string::npos || colon < 7 ||
      !absl::SimpleAtoi(url.substr(colon + 1), &port) || port < 1 || port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("--dist_url ", url, ": it takes tcp://HOST:PORT"));
  }
  environment["RANK"] = absl::StrCat(settings.Int("rank"));
  environment["WORLD_SIZE"] = absl::StrCat(settings.Int("world_size"));
  environment["MASTER_ADDR"] = url.substr(6, colon - 6);
  environment["MASTER_PORT"] = absl::StrCat(port);
  return absl::OkStatus();
}

}  // namespace
}  // namespace mtrun

int main(int argc, char** argv) {
  return mtrun::engine::RunProgram(
      argc, argv,
      {.name = "resnet18",
       .summary = "Trains ResNet-18, or a new last layer of a trained one, to classify images.",
       .recipe = mtrun::kRecipe,
       .settings = mtrun::kSettings,
       .launch_settings = mtrun::kLaunchSettings,
       .aliases = {{"model_folder", "checkpoint"}},
       .images = {.size = mtrun::models::ResNet18::kImageSize, .adjustable = true, .enlarges = true},
       .channels_last_on_cpu = true,
       .make_task = mtrun::MakeTask,
       .launch = mtrun::Launch});
}
