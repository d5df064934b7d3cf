// The GPUs of this machine, through NVIDIA's management library (NVML), which is loaded while the program
// runs: where it is not there, there are none to show. Blocking; one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rendezvous/node_use.h"

namespace mtrun::launcher {

class Gpus {
 public:
  static constexpr char kLibrary[] = "libnvidia-ml.so.1";

  /// Null where the library is not there or finds no driver.
  static std::unique_ptr<Gpus> Load(const std::string& library = kLibrary);
  virtual ~Gpus() = default;
  /// By index. What a GPU does not tell is -1 or 0.
  virtual std::vector<rendezvous::GpuUse> Read() = 0;
};

}  // namespace mtrun::launcher
