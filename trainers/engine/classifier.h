// What a program that trains an image classifier supplies, and its main function. Everything else is the
// engine's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <torch/torch.h>

#include "trainers/engine/options.h"

namespace mtrun::engine {

/// A network: its module (parameters, buffers, mode) and its forward pass [n, 3, S, S] -> logits [n,
/// classes].
struct Model {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const at::Tensor&)> forward;
};

template <typename Net>
Model AsModel(std::shared_ptr<Net> net) {
  return {net, [net](const at::Tensor& images) { return net->forward(images); }};
}

/// (logits [n, classes], labels int64 [n]) -> mean loss, 0-dimensional.
using MeanLoss = std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>;

struct ClassifierProgram {
  std::string name;     // of the program, its settings' section and its run folder
  std::string summary;  // one sentence for --help
  int image_size = 32;  // S, the only size that the network takes
  Recipe recipe;        // defaults of settings
  std::function<Model(uint64_t seed, int64_t classes)> make_model;  // a pure function of the seed
  MeanLoss loss;
};

/// The program's whole life: settings, data, other workers, training, evaluation, report. Exit status: 0, 2
/// for wrong settings, 1 for what fails later; the reason is on standard error (and in
/// TORCHELASTIC_ERROR_FILE).
int RunClassifier(int argc, char** argv, const ClassifierProgram& program);

}  // namespace mtrun::engine
