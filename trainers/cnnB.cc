// cnnB: ResNet-18 for images of 32x32 (11,173,962 parameters), AdamW under a cosine. The recipe below is the
// one of the programs that came before; configs/cnnB-tuned.yaml holds a better one.
#include "trainers/engine/classifier.h"    // cross-entropy, right predictions, confusion matrix
#include "trainers/engine/program.h"       // settings, data, workers, steps, evaluation, report
#include "trainers/models/resnet_cifar.h"  // the network

namespace mtrun {
namespace {

const engine::Recipe kRecipe = {
    {"epochs", "10"},           {"batch_size", "16"},   {"optimizer", "adamw"}, {"learning_rate", "0.001"},
    {"weight_decay", "0.0001"}, {"schedule", "cosine"}, {"augment", "false"},
};

std::unique_ptr<engine::Task> MakeTask(const engine::TaskInputs& in) {
  const auto net = std::make_shared<models::ResNetCifar>(in.options.seed, in.classes);
  return engine::Classify(engine::AsModel(net), in.classes);
}

}  // namespace
}  // namespace mtrun

int main(int argc, char** argv) {
  return mtrun::engine::RunProgram(
      argc, argv,
      {.name = "cnnB",
       .summary = "Trains CNN-B, ResNet-18 for small images, to classify images of 32x32.",
       .recipe = mtrun::kRecipe,
       .images = {.size = mtrun::models::ResNetCifar::kImageSize},
       .make_task = mtrun::MakeTask});
}
