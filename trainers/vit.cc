// vit: a vision transformer for images of 32x32 (2,690,506 parameters), AdamW, fp16 on a GPU, augmented
// images, dropout and stochastic depth. The recipe below is the one of the programs that came before.
#include "trainers/models/vit.h"         // the network
#include "trainers/engine/classifier.h"  // cross-entropy, right predictions, confusion matrix
#include "trainers/engine/program.h"     // settings, data, workers, steps, evaluation, report

namespace mtrun {
namespace {

const engine::Recipe kRecipe = {
    {"epochs", "10"},           {"batch_size", "16"}, {"optimizer", "adamw"}, {"learning_rate", "0.0003"},
    {"weight_decay", "0.0001"}, {"amp", "auto"},  // fp16 and loss scaling where there is a GPU
    {"augment", "true"},        {"flip", "true"},     {"rotation", "15"},     {"translation", "0.1"},
    {"erasing", "0.5"},
};

const std::vector<SettingSpec> kSettings = {
    {.name = "dropout",
     .kind = SettingSpec::Kind::kDouble,
     .default_text = "0.1",
     .help = "part of the elements dropped after the positions, attention and both layers of the MLP",
     .group = "Network",
     .min = 0,
     .max = 0.99},
    {.name = "drop_path",
     .kind = SettingSpec::Kind::kDouble,
     .default_text = "0.1",
     .help = "part of the samples that leave a residual branch out",
     .group = "Network",
     .min = 0,
     .max = 0.99},
};

std::unique_ptr<engine::Task> MakeTask(const engine::TaskInputs& in) {
  models::VitOptions options;
  options.classes = in.classes;
  options.dropout = in.settings.Double("dropout");
  options.drop_path = in.settings.Double("drop_path");
  const auto net = std::make_shared<models::VisionTransformer>(in.options.seed, options);
  engine::Model model = engine::AsModel(net);
  model.set_generator = [net](at::Generator generator) { net->SetGenerator(std::move(generator)); };
  return engine::Classify(std::move(model), in.classes);
}

}  // namespace
}  // namespace mtrun

int main(int argc, char** argv) {
  return mtrun::engine::RunProgram(argc, argv,
                                   {.name = "vit",
                                    .summary = "Trains a vision transformer to classify images of 32x32.",
                                    .recipe = mtrun::kRecipe,
                                    .settings = mtrun::kSettings,
                                    .images = {.size = 32},
                                    .make_task = mtrun::MakeTask});
}
