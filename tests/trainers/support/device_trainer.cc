// cnnA with a device of memory beside the CPU group of each generation (shared_device.h): what the launcher,
// the real loop and the real membership make of a device's faults.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/trainers/support/shared_device.h"
#include "trainers/program/program.h"

namespace mtrun {
trainers::Program CnnAProgram();
}

int main(int argc, char** argv) {
  const auto devices = mtrun::trainers::testing::SharedDevices(std::getenv("MTRUN_DEVICE_FAULT"));
  if (!devices.ok()) {
    std::fprintf(stderr, "%s\n", std::string(devices.status().message()).c_str());
    return 2;
  }
  mtrun::trainers::Program program = mtrun::CnnAProgram();
  program.devices = *devices;
  return mtrun::trainers::RunProgram(argc, argv, program);
}
