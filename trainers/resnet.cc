// resnet: transfer learning with a ResNet of --depth 18, 34 or 50 for images of 224x224. Its body comes from
// a file (torchvision's resnet*-*.pth or safetensors) and is frozen, and its last layer is new. --train all
// trains everything, with or without a file. Smaller images are enlarged on the device. It can also be
// started by hand: --dist_url, --world_size, --rank, --gpu_ids. resnet18 is the same with 18 layers.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainers/models/resnet.h"             // the network
#include "trainers/program/make_task.h"         // options of all classifiers
#include "trainers/program/normalization.h"     // meaning of --normalize auto
#include "trainers/program/program.h"           // settings, data, workers, steps, evaluation, report
#include "trainers/program/starting_weights.h"  // --weights imagenet
#include "trainers/tasks/classifier.h"          // cross-entropy, right predictions, confusion matrix
#include "trainers/weights/init_from.h"         // weights from files

namespace mtrun {
namespace {

const trainers::Recipe kRecipe = {
    {"epochs", "50"},        {"global_batch", "128"},    {"batch_size", "32"}, {"accumulation_steps", "4"},
    {"optimizer", "adam"},   {"learning_rate", "0.001"}, {"amp", "auto"},      {"warmup_steps", "100"},
    {"warmup_share", "0.1"},
};

void ListTransferOptions(trainers::OptionTable& t) {
  using enum trainers::Scope;
  t.Group("Transfer");
  t.Add<std::string>("depth", "18", kRun, "Number of layers.").Choices({"18", "34", "50"});
  t.Add<std::string>(
       "weights", "", kRun,
       "File with the weights to start from: torchvision's resnet*-*.pth, or safetensors; imagenet: "
       "torchvision's from PyTorch's cache (`mtdata weights resnet18` fetches them).")
      .Hints({"pretrained"});
  t.Add<std::string>("train", "auto", kRun,
                     "Layers to train; auto: the last one if there are --weights, else all. The last one "
                     "alone learns with a --learning_rate of 0.01 unless you give one.")
      .Choices({"auto", "last", "all"});
  // Results do not depend on it.
  t.Add<bool>("keep_features", "true", kFree,
              "With --train last and without --augment: keep what the frozen layers compute of each image, "
              "beside the run, so that later epochs compute only the last layer.");
  t.Add<std::string>(
       "normalize", "auto", kRun,
       "Normalisation of pixels: half, (x - 0.5) / 0.5, or imagenet, with the mean and deviation of "
       "torchvision's weights; auto: imagenet with --weights of ImageNet, else half.")
      .Choices({"auto", "half", "imagenet"});
  t.Add<double>("label_smoothing", "0", kRun, "Fraction of a training label that is spread over all classes.")
      .Max(0.999)
      .Since("0");
  t.Add<bool>("zero_init", "false", kRun, "Initialise residual blocks to act as their shortcuts.")
      .Since("false");
}

std::vector<trainers::Option> OwnOptions() {
  using enum trainers::Scope;
  trainers::OptionTable t("resnet");
  ListTransferOptions(t);
  t.Group("Start by hand");
  t.Add<std::string>("dist_url", "tcp://127.0.0.1:23456", kFree,
                     "Address where the workers meet, if neither mtrun nor torchrun started them.");
  t.Add<int64_t>("world_size", "1", kFree, "Number of workers, likewise.").Min(1);
  t.Add<int64_t>("rank", "0", kFree, "Rank of this worker, likewise.");
  t.Add<std::string>("gpu_ids", "0", kFree, "GPUs that this worker may use.");
  return t.options();
}

/// Converts pixels (x - 0.5) / 0.5 to the normalisation that torchvision's weights were trained with.
at::Tensor ByImageNet(const at::Tensor& images) {
  const at::TensorOptions like = images.options().requires_grad(false);
  // Filled on the device, because a copy from here would wait for it.
  const auto channels = [&](double r, double g, double b) {
    const auto one = [&](double value) { return at::full({1, 1, 1, 1}, value, like); };
    return at::cat({one(r), one(g), one(b)}, 1);
  };
  return (images * 0.5 + 0.5 - channels(0.485, 0.456, 0.406)) / channels(0.229, 0.224, 0.225);
}

/// Returns the depth of the network whose weights a file has, or 0 if it has none of these networks'.
int DepthIn(const std::string& file) {
  const std::string bottleneck = "layer1.0.conv3.weight", third = "layer1.2.conv1.weight",
                    last = "layer1.1.conv1.weight";
  const auto tensors = trainers::LoadWeights(file, {bottleneck, third, last});
  const auto has = [&](const std::string& wanted) {
    return tensors.ok() && std::any_of(tensors->begin(), tensors->end(),
                                       [&](const auto& tensor) { return tensor.first == wanted; });
  };
  if (has("layer3.6.conv1.weight")) return 0;  // 101 or 152
  return has(bottleneck) ? 50 : has(third) ? 34 : has(last) ? 18 : 0;
}

/// Loads the body from a file, and the last layer if it fits.
absl::Status LoadBody(const std::string& file, int depth, const torch::nn::Module& net) {
  const absl::Status loaded = trainers::InitFrom(file, net, "--weights", "fc.");
  if (loaded.ok()) return loaded;
  const int other = DepthIn(file);
  if (other == 0 || other == depth) return loaded;
  return absl::InvalidArgumentError(absl::StrCat("--weights ", file, ": it has the weights of ", other,
                                                 " layers, not of ", depth, ": run resnet --depth ", other));
}

bool TrainsOnlyLast(const Settings& settings) {
  const std::string train = settings.Text("train");
  return train == "last" || (train == "auto" && !settings.Text("weights").empty());
}

/// The last layer alone converges in the few steps of a small folder of images only with a higher learning rate
/// (tools/bench/fine_tuning: 180 images, 10 epochs, 20 steps).
void DeriveRate(Settings& settings) {
  constexpr char kRate[] = "learning_rate";
  if (TrainsOnlyLast(settings) && settings.SourceOf(kRate) == SettingSource::kDefault)
    settings.Derive(kRate, "0.01", "the recipe's for the last layer alone");
}

/// Settles the normalisation, and says if the frozen layers compute all images again in each epoch.
absl::Status Resolve(const checkpoints::Identity& continued, bool first, Settings& settings) {
  if (first && TrainsOnlyLast(settings) && settings.Bool("keep_features") && settings.Bool("augment")) {
    log::Info("--augment changes the images, so the frozen layers compute all of them in each epoch");
  }
  return trainers::ResolveNormalize(continued, first, settings);
}

absl::StatusOr<std::unique_ptr<trainers::Task>> MakeTask(const trainers::TaskInputs& in) {
  MT_ASSIGN_OR_RETURN(const std::string weights, trainers::StartingWeights(in.settings));
  const int depth = trainers::DepthOf(in.settings);
  const auto net = std::make_shared<models::ResNet>(in.options.seed, models::ResNet224(depth), in.classes,
                                                    /*draws_body=*/weights.empty());
  if (in.settings.Bool("zero_init")) net->ZeroLastNorms();
  if (!weights.empty()) MT_RETURN_IF_ERROR(LoadBody(weights, depth, *net));
  const bool only_last = TrainsOnlyLast(in.settings);
  if (only_last) net->FreezeBackbone();
  if (only_last && weights.empty() && in.options.init_from.empty() && in.first) {
    log::Warning("--train last without --weights: the last layer learns on top of random features");
  }
  const int64_t train_size = in.image_size, eval_size = in.eval_image_size, small = in.enlarged_from;
  const trainers::Reading reading = in.options.ReadingNow();
  const bool cut = reading.crop || reading.growth.from > 0;  // training images already have their size
  const bool imagenet = in.settings.Text("normalize") == "imagenet";
  const auto features = [=](const at::Tensor& images) {
    const int64_t size = net->is_training() ? train_size : eval_size;
    const bool enlarge = images.size(2) == small && small != size && !(cut && net->is_training());
    const at::Tensor x =
        enlarge ? at::upsample_bilinear2d(images, {size, size}, /*align_corners=*/false) : images;
    return net->Features(imagenet ? ByImageNet(x) : x);
  };
  trainers::Model model = {
      net, [=](const at::Tensor& x) { return net->Classify(x.dim() == 2 ? x : features(x)); }};
  if (only_last && in.settings.Bool("keep_features") && !in.options.ChangesImages())
    model.frozen = {net->features(), features};
  trainers::ClassifierOptions options = trainers::ClassifierOptionsOf(in);
  options.smoothing = in.settings.Double("label_smoothing");
  return trainers::Classify(std::move(model), in.classes, options, in.device);
}

/// Converts tcp://HOST:PORT and rank to the variables that a launcher would have set.
absl::Status Launch(const Settings& settings, EnvironmentMap& environment) {
  if (settings.SourceOf("gpu_ids") != SettingSource::kDefault) {
    // CUDA starts later and reads it then. No other thread runs yet.
    setenv("CUDA_VISIBLE_DEVICES", settings.Text("gpu_ids").c_str(), 1);
  }
  if (IsLaunched(environment) || settings.Int("world_size") == 1) return absl::OkStatus();
  const std::string url = settings.Text("dist_url");
  absl::string_view rest = url;
  const size_t colon = url.rfind(':');
  int port = 0;
  if (!absl::ConsumePrefix(&rest, "tcp://") || colon == std::string::npos || colon < 7 ||
      !absl::SimpleAtoi(url.substr(colon + 1), &port) || port < 1 || port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("--dist_url ", url, ": give tcp://HOST:PORT"));
  }
  environment["RANK"] = absl::StrCat(settings.Int("rank"));
  environment["WORLD_SIZE"] = absl::StrCat(settings.Int("world_size"));
  environment["MASTER_ADDR"] = url.substr(6, colon - 6);
  environment["MASTER_PORT"] = absl::StrCat(port);
  return absl::OkStatus();
}

}  // namespace

trainers::Program ResNetProgram() {
  return {.name = "resnet",
          .summary = "Trains a ResNet of 18, 34 or 50 layers, or a new last layer of a trained one.",
          .recipe = kRecipe,
          .settings = OwnOptions(),
          .aliases = {{"model_folder", "checkpoint"}},
          .images = {.size = models::ResNet224().image_size,
                     .adjustable = true,
                     .enlarges = true,
                     .any_size = true},
          .channels_last_on_cpu = true,
          .python = {"resnet", "resnet224"},
          .make_task = MakeTask,
          .derive = DeriveRate,
          .resolve = Resolve,
          .launch = Launch};
}

}  // namespace mtrun
