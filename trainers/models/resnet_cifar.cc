#include "trainers/models/resnet_cifar.h"

#include "trainers/models/init.h"
#include "trainers/models/normal_init.h"

namespace mtrun::models {
namespace {

std::shared_ptr<ResNetStage> Stage(int64_t in, int64_t out, int64_t stride) {
  return std::make_shared<ResNetStage>(in, out, stride, "shortcut");
}

}  // namespace

ResNetCifar::ResNetCifar(uint64_t seed, int64_t classes)
    : torch::nn::Module("ResNetCifar"),
      conv1_(register_module("conv1", ConvWithoutBias(3, 64, 3, 1))),
      bn1_(register_module("bn1", std::make_shared<BatchNorm>(64))),
      layer1_(register_module("layer1", Stage(64, 64, 1))),
      layer2_(register_module("layer2", Stage(64, 128, 2))),
      layer3_(register_module("layer3", Stage(128, 256, 2))),
      layer4_(register_module("layer4", Stage(256, 512, 2))),
      fc_(register_module("fc", torch::nn::Linear(512, classes))) {
  DefaultInit(*this, seed);
  KaimingNormalFanOut(*this, seed);
}

at::Tensor ResNetCifar::forward(const at::Tensor& images) {
  at::Tensor x = bn1_->forward(conv1_->forward(images)).relu_();
  x = layer4_->forward(layer3_->forward(layer2_->forward(layer1_->forward(x))));
  return fc_->forward(x.mean({2, 3}));
}

}  // namespace mtrun::models
