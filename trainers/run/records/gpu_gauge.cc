#include "trainers/run/records/gpu_gauge.h"

#include <optional>
#include <utility>

namespace mtrun::trainers {

GpuGauge::GpuGauge(std::string pci_address, std::string library)
    : pci_address_(std::move(pci_address)), library_(std::move(library)) {}

void GpuGauge::Look(FinishedStep& step, TimePoint now) {
  if (pci_address_.empty() || now - looked_ < kEvery) return;
  looked_ = now;
  if (!std::exchange(loaded_, true)) gpus_ = Gpus::Load(library_);
  const std::optional<GpuReading> gpu = gpus_ ? gpus_->ReadAt(pci_address_) : std::nullopt;
  if (!gpu) return;
  if (gpu->busy_percent >= 0) step.gpu_busy_percent = gpu->busy_percent;
  if (gpu->memory > 0) step.gpu_memory = gpu->memory;
}

}  // namespace mtrun::trainers
