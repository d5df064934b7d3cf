// How busy this worker's GPU is, for the run's curves: NVML is asked once a second, by the GPU's address on
// the bus, for CUDA_VISIBLE_DEVICES changes the indexes that CUDA knows and not NVML's. Free of LibTorch. Not
// thread-safe.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/gpus.h"
#include "trainers/run/finished_step.h"

namespace mtrun::trainers {

class GpuGauge {
 public:
  static constexpr Duration kEvery = std::chrono::seconds(1);

  /// `pci_address`: "" for a worker that computes on processors.
  explicit GpuGauge(std::string pci_address, std::string library = Gpus::kLibrary);
  /// Fills in what the GPU tells, where it is due.
  void Look(FinishedStep& step, TimePoint now);

 private:
  const std::string pci_address_, library_;
  bool loaded_ = false;
  std::unique_ptr<Gpus> gpus_;  // of NVML, from the first look on; null where it is not there
  TimePoint looked_{};
};

}  // namespace mtrun::trainers
