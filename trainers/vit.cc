// vit: a vision transformer for images of 32x32 (2,690,506 parameters), AdamW, fp16 on a GPU, augmented
// images, dropout and stochastic depth. configs/vit-tuned.yaml holds a better recipe than the defaults below.
#include "trainers/models/vit.h"         // the network
#include "trainers/program/make_task.h"  // options of all classifiers
#include "trainers/program/program.h"    // settings, data, workers, steps, evaluation, report
#include "trainers/tasks/classifier.h"   // cross-entropy, right predictions, confusion matrix

namespace mtrun {
namespace {

const trainers::Recipe kRecipe = {
    {"epochs", "10"},
    {"global_batch", "16"},
    {"batch_size", "16"},
    {"optimizer", "adamw"},
    {"learning_rate", "0.0003"},
    {"weight_decay", "0.0001"},
    {"amp", "auto"},  // fp16 and loss scaling on a GPU
    {"augment", "true"},
    {"flip", "true"},
    {"rotation", "15"},
    {"translation", "0.1"},
    {"erasing", "0.5"},
};

const std::vector<trainers::Option> kSettings = {
    {.spec = {.name = "dropout",
              .kind = SettingSpec::Kind::kDouble,
              .default_text = "0.1",
              .help = "Dropout rate after position embeddings, attention and both layers of the MLP.",
              .group = "Network",
              .min = 0,
              .max = 0.99},
     .scope = trainers::Scope::kRun},
    {.spec = {.name = "drop_path",
              .kind = SettingSpec::Kind::kDouble,
              .default_text = "0.1",
              .help = "Fraction of samples that skip a residual branch (stochastic depth).",
              .group = "Network",
              .min = 0,
              .max = 0.99},
     .scope = trainers::Scope::kRun},
};

std::unique_ptr<trainers::Task> MakeTask(const trainers::TaskInputs& in) {
  models::VitOptions options;
  options.classes = in.classes;
  options.dropout = in.settings.Double("dropout");
  options.drop_path = in.settings.Double("drop_path");
  const auto net = std::make_shared<models::VisionTransformer>(in.options.seed, options);
  trainers::Model model = trainers::AsModel(net);
  if (options.dropout > 0 || options.drop_path > 0)
    model.set_stream = [net](at::Tensor stream) { net->SetStream(std::move(stream)); };
  return trainers::Classify(std::move(model), in.classes, trainers::ClassifierOptionsOf(in), in.device);
}

}  // namespace

trainers::Program VitProgram() {
  return {.name = "vit",
          .summary = "Trains a vision transformer to classify images of 32x32.",
          .recipe = kRecipe,
          .settings = kSettings,
          .images = {.size = 32},
          .make_task = MakeTask};
}

}  // namespace mtrun
