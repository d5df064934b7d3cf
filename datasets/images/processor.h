// The vector instructions of the processor. Internal to this folder.
#pragma once

namespace mtrun::datasets {

#if defined(__x86_64__)
inline bool HasAvx2() {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}
#endif

}  // namespace mtrun::datasets
