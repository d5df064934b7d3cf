// True if a sanitizer slows this build down, so that tests do less.
#pragma once

namespace mtrun {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kInstrumented = true;
#else
inline constexpr bool kInstrumented = false;
#endif

}  // namespace mtrun
