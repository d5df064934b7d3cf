// Load of this worker's GPU, for the run's curves. NVML is queried once a second by the GPU's PCI address,
// because CUDA_VISIBLE_DEVICES changes the indices in CUDA but not those in NVML. Does not depend on
// LibTorch. Not thread-safe.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/gpus.h"
#include "trainers/run/records/finished_step.h"

namespace mtrun::trainers {

class GpuGauge {
 public:
  static constexpr Duration kEvery = std::chrono::seconds(1);

  /// `pci_address`: "" if the worker computes on CPUs.
  explicit GpuGauge(std::string pci_address, std::string library = Gpus::kLibrary);
  /// Fills in the GPU's measurements if they are due.
  void Look(FinishedStep& step, TimePoint now);

 private:
  const std::string pci_address_, library_;
  bool loaded_ = false;
  std::unique_ptr<Gpus> gpus_;  // NVML, loaded at the first query; null if it does not exist
  TimePoint looked_{};
};

}  // namespace mtrun::trainers
