#include "trainers/membership/numeric_names.h"

#include <dlfcn.h>
#include <netdb.h>

#include <atomic>

namespace {

std::atomic<bool> numeric{false};

}  // namespace

// The program's own definition overrides the C library's, for LibTorch too.
extern "C" __attribute__((visibility("default"))) int getnameinfo(const sockaddr* address, socklen_t length,
                                                                  char* host, socklen_t host_size,
                                                                  char* service, socklen_t service_size,
                                                                  int flags) {
  using Function = decltype(&getnameinfo);
  static const auto real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "getnameinfo"));
  if (real == nullptr) return EAI_SYSTEM;
  if (numeric) flags |= NI_NUMERICHOST;
  return real(address, length, host, host_size, service, service_size, flags);
}

namespace mtrun::trainers {

void KeepAddressesNumeric() { numeric = true; }

}  // namespace mtrun::trainers
