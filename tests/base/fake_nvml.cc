// A fake of NVIDIA's library: two GPUs, of which the second reports only its memory.
#include <cstring>

extern "C" {

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  static int gpus[2];
  *device = &gpus[index];
  gpus[index] = static_cast<int>(index);
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** device) {
  const bool first = std::strcmp(address, "00000000:17:00.0") == 0;
  if (!first && std::strcmp(address, "00000000:18:00.0") != 0) return 6;
  return nvmlDeviceGetHandleByIndex_v2(first ? 0 : 1, device);
}
int nvmlDeviceGetName(void* device, char* name, unsigned size) {
  if (*static_cast<int*>(device) != 0) return 3;
  std::strncpy(name, "Fake GPU", size);
  return 0;
}
int nvmlDeviceGetUtilizationRates(void* device, unsigned* rates) {
  if (*static_cast<int*>(device) != 0) return 3;
  rates[0] = 87;
  rates[1] = 5;
  return 0;
}
int nvmlDeviceGetMemoryInfo(void*, unsigned long long* memory) {
  memory[0] = 80;
  memory[1] = 30;
  memory[2] = 50;
  return 0;
}
int nvmlDeviceGetTemperature(void* device, int, unsigned* degrees) {
  *degrees = 61;
  return *static_cast<int*>(device) != 0 ? 3 : 0;
}
}
