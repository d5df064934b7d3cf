// Runs cnnA with a simulated device and the CPU group in each generation (shared_device.h), to test how the
// launcher, the real loop and the real membership handle device faults. With MTRUN_SAY_ORDER it reports its
// first update of weights and the first connection of a device, which happens after it is admitted.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include <unistd.h>

#include <ATen/record_function.h>

#include "absl/strings/match.h"
#include "tests/trainers/support/shared_device.h"
#include "trainers/program/program.h"

namespace mtrun {
trainers::Program CnnAProgram();

namespace {

void Say(const char* what) { std::fprintf(stderr, "pid %d %s\n", static_cast<int>(getpid()), what); }

std::unique_ptr<at::ObserverContext> SayFirstUpdate(const at::RecordFunction& function) {
  static std::atomic<bool> said = false;
  if (absl::StartsWith(function.name(), "aten::_fused_") && !said.exchange(true)) Say("updates weights");
  return nullptr;
}

collectives::DeviceMaker Saying(collectives::DeviceMaker devices) {
  return [devices = std::move(devices)](const auto& member, auto bootstrap) {
    Say("connects a device");
    return devices(member, std::move(bootstrap));
  };
}

}  // namespace
}  // namespace mtrun

int main(int argc, char** argv) {
  const auto devices = mtrun::trainers::testing::SharedDevices(std::getenv("MTRUN_DEVICE_FAULT"));
  if (!devices.ok()) {
    std::fprintf(stderr, "%s\n", std::string(devices.status().message()).c_str());
    return 2;
  }
  mtrun::trainers::Program program = mtrun::CnnAProgram();
  program.devices = *devices;
  if (std::getenv("MTRUN_SAY_ORDER") != nullptr) {
    at::addGlobalCallback(at::RecordFunctionCallback(mtrun::SayFirstUpdate));
    program.devices = mtrun::Saying(*devices);
  }
  return mtrun::trainers::RunProgram(argc, argv, program);
}
