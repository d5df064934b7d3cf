#include "trainers/device/memory.h"

#include <unistd.h>

#include <fstream>

#include <ATen/DeviceAccelerator.h>

namespace mtrun::trainers {

int64_t MemoryInUse(c10::Device device) {
  if (device.is_cuda()) {
    const auto stats = at::accelerator::getDeviceStats(device.index());
    return stats.reserved_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)].current;
  }
  // proc(5), statm: all pages, pages in main memory.
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  if (!(file >> all >> resident)) return 0;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace mtrun::trainers
