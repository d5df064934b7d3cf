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

std::vector<trainers::Option> OwnOptions() {
  using enum trainers::Scope;
  trainers::OptionTable t("vit");
  t.Group("Network");
  t.Add<double>("dropout", "0.1", kRun,
                "Dropout rate after position embeddings, attention and both layers of the MLP.")
      .Max(0.99);
  t.Add<double>("drop_path", "0.1", kRun,
                "Fraction of samples that skip a residual branch (stochastic depth).")
      .Max(0.99);
  return t.options();
}

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
          .settings = OwnOptions(),
          .images = {.size = 32},
          .make_task = MakeTask};
}

}  // namespace mtrun
