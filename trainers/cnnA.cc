// cnnA: CNN-A (9,986 parameters) on images of 32x32, plain SGD. The recipe below is the one of the programs
// that came before; configs/cnnA-tuned.yaml holds a better one.
#include "trainers/engine/classifier.h"  // settings, data, workers, steps, evaluation, report
#include "trainers/models/cnn_a.h"       // the network

namespace mtrun {
namespace {

const engine::Recipe kRecipe = {
    {"epochs", "10"},  {"batch_size", "16"},  {"optimizer", "sgd"},     {"learning_rate", "0.001"},
    {"momentum", "0"}, {"weight_decay", "0"}, {"schedule", "constant"}, {"augment", "false"},
    {"threads", "1"},  // the work is too small to share: OpenMP's barriers cost more than they save
};

engine::Model MakeModel(uint64_t seed, int64_t classes) {
  return engine::AsModel(std::make_shared<models::CnnA>(seed, classes));
}

at::Tensor MeanCrossEntropy(const at::Tensor& logits, const at::Tensor& labels) {
  return at::cross_entropy_loss(logits, labels);
}

}  // namespace
}  // namespace mtrun

int main(int argc, char** argv) {
  return mtrun::engine::RunClassifier(
      argc, argv,
      {.name = "cnnA",
       .summary = "Trains CNN-A, a small convolutional network, to classify images of 32x32.",
       .image_size = mtrun::models::CnnA::kImageSize,
       .recipe = mtrun::kRecipe,
       .make_model = mtrun::MakeModel,
       .loss = mtrun::MeanCrossEntropy});
}
