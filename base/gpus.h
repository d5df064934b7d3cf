// The GPUs of this machine, read through NVIDIA's management library (NVML). The library is loaded at run
// time; if it is missing, there are no GPUs to show. Blocking; one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mtrun {

/// One GPU's reading; values that the GPU does not report are -1 or 0.
struct GpuReading {
  std::string name;
  int busy_percent = -1;
  int64_t memory = 0, memory_total = 0;  // bytes, used and total
  int temperature = -1;                  // degrees Celsius
  bool operator==(const GpuReading&) const = default;
};

class Gpus {
 public:
  static constexpr char kLibrary[] = "libnvidia-ml.so.1";

  /// Loads the library; null if it is missing or finds no driver.
  static std::unique_ptr<Gpus> Load(const std::string& library = kLibrary);
  virtual ~Gpus() = default;
  /// Reads all GPUs, ordered by index.
  virtual std::vector<GpuReading> Read() = 0;
  /// Reads the GPU at this bus address ("00000000:17:00.0"), independent of the indexes that this process
  /// sees. Nothing if there is no such GPU.
  virtual std::optional<GpuReading> ReadAt(const std::string& pci_address) = 0;
};

}  // namespace mtrun
