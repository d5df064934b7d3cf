#include "trainers/program/environment_json.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include <ATen/Version.h>
#include <torch/version.h>
#ifdef MT_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/posix.h"
#include "base/processor_kind.h"
#include "base/version.h"
#include "nlohmann/json.hpp"

namespace mtrun::trainers {
namespace {

/// Returns this process's command line without shell quotes.
std::string CommandLine() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string line, argument;
  while (std::getline(file, argument, '\0')) absl::StrAppend(&line, line.empty() ? "" : " ", argument);
  return line;
}

std::string System() {
  utsname names{};
  if (uname(&names) != 0) return "unknown";
  return absl::StrCat(names.sysname, " ", names.release, " ", names.machine);
}

std::string DeviceName(const at::Device& device) {
#ifdef MT_CUDA
  if (device.is_cuda()) return absl::StrCat(at::cuda::getDeviceProperties(device.index())->name, " (cuda)");
#endif
  return device.str();
}

}  // namespace

std::string LibTorchName() {
#ifdef MT_CUDA
  return "LibTorch " TORCH_VERSION " with CUDA";
#else
  return "LibTorch " TORCH_VERSION;
#endif
}

std::string MachineKind(const at::Device& device) {
  const std::string computes =
      device.is_cpu() ? absl::StrCat(ProcessorKind(), ", ", at::get_cpu_capability()) : DeviceName(device);
  return absl::StrCat(computes, ", ", LibTorchName());
}

std::string EnvironmentJson(const std::string& program, const at::Device& device) {
  const double memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  const nlohmann::ordered_json object = {{"format", "mtrun-environment"},
                                         {"program", program},
                                         {"version", Version()},
                                         {"command", CommandLine()},
                                         {"started", WallClockText()},
                                         {"host", HostName()},
                                         {"system", System()},
                                         {"processor", ProcessorName()},
                                         {"cores", std::thread::hardware_concurrency()},
                                         {"memory", absl::StrFormat("%.1f GiB", memory / (1 << 30))},
                                         {"device", DeviceName(device)},
                                         {"libtorch", TORCH_VERSION}};
  return object.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace mtrun::trainers
