#include "base/gpus.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>

namespace mtrun {
namespace {

// The few NVML calls needed, with stable names and layouts (NVML API reference, "Device Queries").
using Device = void*;
struct Utilization {
  unsigned gpu, memory;  // percent of the last sample period
};
struct Memory {
  unsigned long long total, free, used;  // bytes
};
constexpr int kSuccess = 0;
constexpr int kDieTemperature = 0;  // NVML_TEMPERATURE_GPU
constexpr unsigned kMaxGpus = 256;

class Nvml final : public Gpus {
 public:
  explicit Nvml(void* library) : library_(library) {}
  ~Nvml() override {
    if (shutdown_ != nullptr) shutdown_();
    dlclose(library_);
  }

  bool Begin() {
    int (*init)() = nullptr;
    Find("nvmlInit_v2", &init);
    Find("nvmlDeviceGetCount_v2", &count_);
    Find("nvmlDeviceGetHandleByIndex_v2", &handle_);
    Find("nvmlDeviceGetHandleByPciBusId_v2", &handle_at_);
    Find("nvmlDeviceGetName", &name_);
    Find("nvmlDeviceGetUtilizationRates", &utilization_);
    Find("nvmlDeviceGetMemoryInfo", &memory_);
    Find("nvmlDeviceGetTemperature", &temperature_);
    if (init == nullptr || count_ == nullptr || handle_ == nullptr || init() != kSuccess) return false;
    Find("nvmlShutdown", &shutdown_);
    return true;
  }

  std::vector<GpuReading> Read() override {
    unsigned count = 0;
    std::vector<GpuReading> gpus;
    if (count_(&count) != kSuccess) return gpus;
    for (unsigned i = 0; i < std::min(count, kMaxGpus); ++i) {
      Device device = nullptr;
      GpuReading& gpu = gpus.emplace_back();
      if (handle_(i, &device) == kSuccess) Fill(device, &gpu);
    }
    return gpus;
  }

  std::optional<GpuReading> ReadAt(const std::string& pci_address) override {
    Device device = nullptr;
    if (handle_at_ == nullptr || handle_at_(pci_address.c_str(), &device) != kSuccess) return std::nullopt;
    GpuReading gpu;
    Fill(device, &gpu);
    return gpu;
  }

 private:
  template <typename Function>
  void Find(const char* name, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(library_, name));
  }

  void Fill(Device device, GpuReading* gpu) {
    std::array<char, 96> name{};
    if (name_ != nullptr && name_(device, name.data(), name.size() - 1) == kSuccess) gpu->name = name.data();
    Utilization busy{};
    if (utilization_ != nullptr && utilization_(device, &busy) == kSuccess)
      gpu->busy_percent = static_cast<int>(std::min(busy.gpu, 100U));
    Memory memory{};
    if (memory_ != nullptr && memory_(device, &memory) == kSuccess) {
      gpu->memory = static_cast<int64_t>(memory.used);
      gpu->memory_total = static_cast<int64_t>(memory.total);
    }
    unsigned degrees = 0;
    if (temperature_ != nullptr && temperature_(device, kDieTemperature, &degrees) == kSuccess)
      gpu->temperature = static_cast<int>(std::min(degrees, 1000U));
  }

  void* const library_;
  int (*shutdown_)() = nullptr;
  int (*count_)(unsigned*) = nullptr;
  int (*handle_)(unsigned, Device*) = nullptr;
  int (*handle_at_)(const char*, Device*) = nullptr;
  int (*name_)(Device, char*, unsigned) = nullptr;
  int (*utilization_)(Device, Utilization*) = nullptr;
  int (*memory_)(Device, Memory*) = nullptr;
  int (*temperature_)(Device, int, unsigned*) = nullptr;
};

}  // namespace

std::unique_ptr<Gpus> Gpus::Load(const std::string& library) {
  void* const loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) return nullptr;
  auto nvml = std::make_unique<Nvml>(loaded);
  if (!nvml->Begin()) return nullptr;
  return nvml;
}

}  // namespace mtrun
