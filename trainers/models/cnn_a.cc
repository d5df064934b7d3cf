#include "trainers/models/cnn_a.h"

#include "trainers/models/conv_relu_pool.h"
#include "trainers/models/init.h"

namespace mtrun::models {

CnnA::CnnA(uint64_t seed, int64_t classes)
    : torch::nn::Module("CnnA"),
      conv1_(register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4, 3)))),
      conv2_(register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(4, 8, 3)))),
      fc1_(register_module("fc1", torch::nn::Linear(288, 32))),
      fc2_(register_module("fc2", torch::nn::Linear(32, classes))) {
  DefaultInit(*this, seed);
}

at::Tensor CnnA::forward(const at::Tensor& images) {
  at::Tensor x = ConvReluPool(images, conv1_->weight, conv1_->bias);
  x = ConvReluPool(x, conv2_->weight, conv2_->bias);
  return fc2_->forward(at::relu(fc1_->forward(x.flatten(1))));
}

}  // namespace mtrun::models
