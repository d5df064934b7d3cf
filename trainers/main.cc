// The training programs by name; each is described in a file of its own.
#include "trainers/program/trainers.h"

namespace mtrun {

trainers::Program CnnAProgram();
trainers::Program CnnBProgram();
trainers::Program VitProgram();
trainers::Program ResNet18Program();
trainers::Program DiffusionProgram();

namespace {

constexpr trainers::Trainer kTrainers[] = {
    {"cnnA", CnnAProgram},         {"cnnB", CnnBProgram},           {"vit", VitProgram},
    {"resnet18", ResNet18Program}, {"diffusion", DiffusionProgram},
};

}  // namespace
}  // namespace mtrun

int main(int argc, char** argv) { return mtrun::trainers::RunTrainer(argc, argv, mtrun::kTrainers); }
