#include "trainers/device/memory.h"

#include <ATen/DeviceAccelerator.h>

#include "base/process_memory.h"

namespace mtrun::trainers {

int64_t MemoryInUse(c10::Device device) {
  if (!device.is_cuda()) return ResidentBytes();
  const auto stats = at::accelerator::getDeviceStats(device.index());
  return stats.reserved_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)].current;
}

}  // namespace mtrun::trainers
