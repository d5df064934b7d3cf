// Whether this build is slowed down by a sanitizer, for tests that do less then.
#pragma once

namespace mtrun {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kInstrumented = true;
#else
inline constexpr bool kInstrumented = false;
#endif

}  // namespace mtrun
