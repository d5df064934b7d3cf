// cnnA: CNN-A (9,986 parameters) on images of 32x32, plain SGD. configs/cnnA-tuned.yaml holds a better
// recipe than the defaults below.
#include "trainers/models/cnn_a.h"       // the network
#include "trainers/program/make_task.h"  // options of all classifiers
#include "trainers/program/program.h"    // settings, data, workers, steps, evaluation, report
#include "trainers/tasks/classifier.h"   // cross-entropy, right predictions, confusion matrix

namespace mtrun {
namespace {

// One thread: the work is too small to share, because OpenMP's barriers cost more than threads save.
const trainers::Recipe kRecipe = {
    {"epochs", "10"},           {"global_batch", "16"}, {"batch_size", "16"},  {"optimizer", "sgd"},
    {"learning_rate", "0.001"}, {"momentum", "0"},      {"weight_decay", "0"}, {"schedule", "constant"},
    {"augment", "false"},       {"threads", "1"},
};

std::unique_ptr<trainers::Task> MakeTask(const trainers::TaskInputs& in) {
  const auto net = std::make_shared<models::CnnA>(in.options.seed, in.classes);
  return trainers::Classify(trainers::AsModel(net), in.classes, trainers::ClassifierOptionsOf(in), in.device);
}

}  // namespace

trainers::Program CnnAProgram() {
  return {.name = "cnnA",
          .summary = "Trains CNN-A, a small convolutional network, to classify images of 32x32.",
          .recipe = kRecipe,
          .images = {.size = models::CnnA::kImageSize},
          .make_task = MakeTask};
}

}  // namespace mtrun
