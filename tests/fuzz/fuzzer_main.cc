// libFuzzer's entry point; MT_FUZZ_TARGET names the target of this program.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/fuzz_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mtrun::fuzz::MT_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  return 0;
}
