// resnet18: resnet with 18 layers, under the name that it had alone.

#include "trainers/program/program.h"

namespace mtrun {

trainers::Program ResNetProgram();

trainers::Program ResNet18Program() {
  trainers::Program program = ResNetProgram();
  program.name = "resnet18";
  program.summary = "Trains ResNet-18, or a new last layer of a trained one, to classify images.";
  std::erase_if(program.settings, [](const trainers::Option& option) { return option.spec.name == "depth"; });
  return program;
}

}  // namespace mtrun
