// The GPUs of this machine, through NVIDIA's management library (NVML), which is loaded while the program
// runs: where it is not there, there are none to show. Blocking; one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mtrun {

/// What a GPU does not tell is -1 or 0.
struct GpuReading {
  std::string name;
  int busy_percent = -1;
  int64_t memory = 0, memory_total = 0;  // bytes, in use and in all
  int temperature = -1;                  // degrees Celsius
  bool operator==(const GpuReading&) const = default;
};

class Gpus {
 public:
  static constexpr char kLibrary[] = "libnvidia-ml.so.1";

  /// Null where the library is not there or finds no driver.
  static std::unique_ptr<Gpus> Load(const std::string& library = kLibrary);
  virtual ~Gpus() = default;
  /// By index.
  virtual std::vector<GpuReading> Read() = 0;
  /// The one at that address on the bus ("00000000:17:00.0"), whatever indexes this process knows the GPUs
  /// by; nothing: there is none.
  virtual std::optional<GpuReading> ReadAt(const std::string& pci_address) = 0;
};

}  // namespace mtrun
