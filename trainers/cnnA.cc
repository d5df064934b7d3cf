// cnnA: CNN-A (9,986 parameters) on images of 32x32, plain SGD. The recipe below is the one of the programs
// that came before; configs/cnnA-tuned.yaml holds a better one.
#include "trainers/engine/classifier.h"  // cross-entropy, right predictions, confusion matrix
#include "trainers/engine/program.h"     // settings, data, workers, steps, evaluation, report
#include "trainers/models/cnn_a.h"       // the network

namespace mtrun {
namespace {

const engine::Recipe kRecipe = {
    {"epochs", "10"},  {"batch_size", "16"},  {"optimizer", "sgd"},     {"learning_rate", "0.001"},
    {"momentum", "0"}, {"weight_decay", "0"}, {"schedule", "constant"}, {"augment", "false"},
    {"threads", "1"},  // the work is too small to share: OpenMP's barriers cost more than they save
};

std::unique_ptr<engine::Task> MakeTask(const engine::TaskInputs& in) {
  const auto net = std::make_shared<models::CnnA>(in.options.seed, in.classes);
  return engine::Classify(engine::AsModel(net), in.classes);
}

}  // namespace
}  // namespace mtrun

int main(int argc, char** argv) {
  return mtrun::engine::RunProgram(
      argc, argv,
      {.name = "cnnA",
       .summary = "Trains CNN-A, a small convolutional network, to classify images of 32x32.",
       .recipe = mtrun::kRecipe,
       .images = {.size = mtrun::models::CnnA::kImageSize},
       .make_task = mtrun::MakeTask});
}
