// The trainers, one line each: name of the program, function that describes it. To add one, write
// trainers/<name>.cc and its line here. CMake builds what this list names, and tools/trainer_names.py reads it.
#pragma once

#define MT_TRAINERS(X)           \
  X("cnnA", CnnAProgram)         \
  X("cnnB", CnnBProgram)         \
  X("vit", VitProgram)           \
  X("resnet", ResNetProgram)     \
  X("resnet18", ResNet18Program) \
  X("diffusion", DiffusionProgram)
