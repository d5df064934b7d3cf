#include "trainers/device/pci_address.h"

#ifdef MT_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif

#include "absl/strings/str_format.h"

namespace mtrun::trainers {

std::string PciAddress([[maybe_unused]] c10::Device device) {
#ifdef MT_CUDA
  if (device.is_cuda()) {
    const cudaDeviceProp* const gpu = at::cuda::getDeviceProperties(device.index());
    return absl::StrFormat("%08x:%02x:%02x.0", gpu->pciDomainID, gpu->pciBusID, gpu->pciDeviceID);
  }
#endif
  return "";
}

}  // namespace mtrun::trainers
