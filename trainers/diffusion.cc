// diffusion: denoising diffusion (DDPM) with a U-Net on any packed set of images, unconditional or by class.
// The averaged weights draw grids of samples by DDIM during training. --sample N draws from saved weights.
#include <unistd.h>
#include <optional>

#include <torch/cuda.h>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "trainers/device/torch_status.h"
#include "trainers/models/unet.h"           // the network
#include "trainers/program/program.h"       // settings, data, workers, steps, evaluation, report
#include "trainers/tasks/diffusion_task.h"  // noise, loss, samples
#include "trainers/tasks/image_grid.h"      // pictures
#include "trainers/weights/init_from.h"     // weights from files

namespace mtrun {
namespace {

using trainers::DiffusionTask;

const trainers::Recipe kRecipe = {
    {"epochs", "20"},
    {"global_batch", "32"},
    {"batch_size", "32"},
    {"optimizer", "adamw"},
    {"learning_rate", "0.0002"},
    {"weight_decay", "0.01"},
    {"clip_norm", "1"},
    {"ema_decay", "0.999"},
    {"amp", "auto"},
    {"augment", "true"},
    {"flip", "true"},
    {"eval_images", "512"},
};

std::vector<trainers::Option> OwnOptions() {
  using enum trainers::Scope;
  trainers::OptionTable t("diffusion");
  t.Group("Diffusion");
  t.Add<int64_t>("channels", "64", kRun, "Channels of the network's first level.").Min(4);
  t.Add<std::string>("mults", "1,2,2,2", kRun,
                     "Channels of each level, in units of --channels; each level halves the image.");
  t.Add<int64_t>("blocks", "2", kRun, "Residual blocks of a level.").Min(1);
  t.Add<std::string>("attention", "16", kRun,
                     "Resolutions of the levels with attention, comma-separated; 0: none.");
  t.Add<std::string>("prediction", "epsilon", kRun,
                     "Target of the network: the noise (epsilon) or the velocity (v).")
      .Choices({"epsilon", "v"});
  t.Add<std::string>("noise_schedule", "linear", kRun, "Schedule of the noise over 1000 steps.")
      .Choices({"linear", "cosine"});
  t.Add<bool>("conditional", "false", kRun,
              "Train a class-conditional network; samples cycle through the classes.");
  t.Add<double>("label_drop", "0.1", kRun,
                "With --conditional: fraction of training images whose label is dropped.")
      .Max(1);
  t.Add<double>("guidance", "0", kRun, "With --conditional: strength of classifier-free guidance.");
  t.Add<int64_t>("sample_every", "0", kRun, "Steps between grids of samples in the model_folder; 0: none.");
  t.Add<int64_t>("sample_count", "64", kRun, "Images in such a grid.").Min(1);
  t.Add<int64_t>("sample_steps", "50", kRun, "DDIM steps (network calls) for each sample.").Min(2).Max(1000);
  t.Add<int64_t>(
      "sample", "0", kFree,
      "Draw this many images with the weights of --init_from, else of model_ema.safetensors in the "
      "model_folder, to samples.png there, and exit.");
  return t.options();
}

absl::StatusOr<std::vector<int64_t>> Numbers(const Settings& settings, const char* name) {
  std::vector<int64_t> numbers;
  for (const absl::string_view part : absl::StrSplit(settings.Text(name), ',')) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(part, &number) || number < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", name, " ", settings.Text(name), ": give whole numbers separated by commas"));
    }
    numbers.push_back(number);
  }
  return numbers;
}

/// Enough, because --image_size is at most 65,535.
constexpr size_t kMaxHalvings = 16;

absl::StatusOr<models::UnetOptions> NetworkOptions(const Settings& settings, int image_size,
                                                   int64_t classes) {
  models::UnetOptions options;
  options.channels = settings.Int("channels");
  options.blocks = settings.Int("blocks");
  options.image_size = image_size;
  options.classes = classes;
  MT_ASSIGN_OR_RETURN(options.mults, Numbers(settings, "mults"));
  MT_ASSIGN_OR_RETURN(options.attention, Numbers(settings, "attention"));
  const size_t halvings = options.mults.size() - 1;
  if (halvings > kMaxHalvings) {
    return absl::InvalidArgumentError(
        absl::StrCat("--mults has ", options.mults.size(), " levels, but the limit is ", kMaxHalvings + 1));
  }
  if (absl::c_linear_search(options.mults, 0))
    return absl::InvalidArgumentError("--mults: each level must be at least 1");
  const int64_t divisor = int64_t{1} << halvings;
  if (image_size % divisor != 0) {
    return absl::InvalidArgumentError(absl::StrCat("images of ", image_size, " pixels cannot be halved ",
                                                   halvings, " times: give --image_size a multiple of ",
                                                   divisor, ", or give fewer --mults"));
  }
  const int64_t groups = std::min(options.groups, options.channels);
  if (options.channels % 2 != 0 || options.channels % groups != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--channels ", options.channels, ": it must be an even number up to 32, or a multiple of 32"));
  }
  return options;
}

absl::StatusOr<std::unique_ptr<DiffusionTask>> MakeDiffusion(const Settings& settings, int image_size,
                                                             int64_t classes) {
  trainers::DiffusionOptions options;
  MT_ASSIGN_OR_RETURN(options.schedule, trainers::ParseDiffusionKind(settings.Text("noise_schedule")));
  MT_ASSIGN_OR_RETURN(options.target, trainers::ParseDiffusionTarget(settings.Text("prediction")));
  options.classes = classes;
  options.label_drop = settings.Double("label_drop");
  options.guidance = settings.Double("guidance");
  options.seed = static_cast<uint64_t>(settings.Int("seed"));
  options.image_size = image_size;
  options.picture_every = settings.Int("sample_every");
  options.samples = settings.Int("sample_count");
  options.ddim_steps = settings.Int("sample_steps");
  MT_ASSIGN_OR_RETURN(const models::UnetOptions network, NetworkOptions(settings, image_size, classes));
  const auto net = std::make_shared<models::Unet>(options.seed, network);
  return std::make_unique<DiffusionTask>(
      net,
      [net](const at::Tensor& x, const at::Tensor& t, const at::Tensor& labels) {
        return net->forward(x, t, labels);
      },
      options);
}

absl::StatusOr<std::unique_ptr<trainers::Task>> MakeTask(const trainers::TaskInputs& in) {
  return MakeDiffusion(in.settings, in.image_size, in.settings.Bool("conditional") ? in.classes : 0);
}

/// Returns the number of classes. The file's class embedding has a row for each class and one for "no class".
absl::StatusOr<int64_t> ClassesOf(const trainers::NamedTensors& weights) {
  for (const auto& [name, tensor] : weights) {
    if (name != "class_embedding.weight") continue;
    if (tensor.dim() != 2 || tensor.size(0) < 2 || tensor.numel() == 0)
      return absl::InvalidArgumentError(absl::StrCat("its ", name, " is not an embedding of classes"));
    return tensor.size(0) - 1;
  }
  return 0;
}

absl::Status DrawSamples(Settings settings) {
  const std::string folder = settings.Text("model_folder"), saved = folder + "/config.yaml";
  std::string file = settings.Text("init_from");
  // The run's own settings describe the network of its weights.
  if (access(saved.c_str(), R_OK) == 0) {
    MT_RETURN_IF_ERROR(settings.ApplyYaml(saved, "diffusion"));
  }
  if (file.empty()) file = folder + "/model_ema.safetensors";
  MT_ASSIGN_OR_RETURN(const trainers::NamedTensors weights,
                      trainers::LoadWeights(file, {"class_embedding.weight"}));
  const int size = settings.IsSet("image_size") ? static_cast<int>(settings.Int("image_size")) : 32;
  MT_ASSIGN_OR_RETURN(const int64_t classes, Annotate(ClassesOf(weights), file));
  MT_ASSIGN_OR_RETURN(const auto task, MakeDiffusion(settings, size, classes));
  MT_RETURN_IF_ERROR(Annotate(trainers::CopyInto(weights, task->module()), file));
  MT_RETURN_IF_ERROR(CheckWritable(folder));
  const std::string picture = folder + "/samples.png";
  MT_RETURN_IF_ERROR(trainers::TorchStatus("samples", [&] {
    if (torch::cuda::is_available() && settings.Text("device") != "cpu") task->module().to(at::kCUDA);
    task->module().eval();
    return trainers::WriteImageGrid(picture, task->Sample(settings.Int("sample")));
  }));
  log::Info(settings.Int("sample"), " samples are in ", picture);
  return absl::OkStatus();
}

std::optional<absl::Status> DrawIfAsked(const Settings& settings) {
  if (settings.Int("sample") == 0) return std::nullopt;
  return DrawSamples(settings);
}

}  // namespace

trainers::Program DiffusionProgram() {
  return {.name = "diffusion",
          .summary = "Trains a denoising diffusion model to draw images like those of a data set.",
          .usage = "diffusion --sample N --model_folder RUN",
          .example = "--image_size 32",
          .recipe = kRecipe,
          .settings = OwnOptions(),
          .images = {.size = 0, .adjustable = true},
          .needs_test_images = false,
          .make_task = MakeTask,
          .alternate_main = DrawIfAsked};
}

}  // namespace mtrun
