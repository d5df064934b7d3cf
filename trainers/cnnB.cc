// cnnB: ResNet-18 for images of 32x32 (11,173,962 parameters), AdamW with a cosine schedule.
// configs/cnnB-tuned.yaml holds a better recipe than the defaults below.
#include "trainers/models/resnet.h"      // the network
#include "trainers/program/make_task.h"  // options of all classifiers
#include "trainers/program/program.h"    // settings, data, workers, steps, evaluation, report
#include "trainers/tasks/classifier.h"   // cross-entropy, right predictions, confusion matrix

namespace mtrun {
namespace {

const trainers::Recipe kRecipe = {
    {"epochs", "10"},           {"global_batch", "16"},     {"batch_size", "16"},   {"optimizer", "adamw"},
    {"learning_rate", "0.001"}, {"weight_decay", "0.0001"}, {"schedule", "cosine"}, {"augment", "false"},
};

std::unique_ptr<trainers::Task> MakeTask(const trainers::TaskInputs& in) {
  const auto net = std::make_shared<models::ResNet>(in.options.seed, models::kResNet32, in.classes);
  return trainers::Classify(trainers::AsModel(net), in.classes, trainers::ClassifierOptionsOf(in), in.device);
}

}  // namespace

trainers::Program CnnBProgram() {
  return {.name = "cnnB",
          .summary = "Trains CNN-B, ResNet-18 for small images, to classify images of 32x32.",
          .recipe = kRecipe,
          .images = {.size = models::kResNet32.image_size},
          .python = {"resnet", "cnnB"},
          .make_task = MakeTask};
}

}  // namespace mtrun
