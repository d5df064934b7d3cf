// How a message between agents and service lists its fields, once: a static Fields(self, field) calls
// field(name, member, bound) for each. The codec's two directions, the checks of what comes from outside
// (validate.h) and the comparison of settings read the list. The name is the one in rendezvous.proto; a
// duration's has _ns behind it there.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mtrun::rendezvous {

inline constexpr size_t kMaxName = 256;       // ids, host names, roles
inline constexpr size_t kMaxText = 64 << 10;  // reasons, error messages
inline constexpr int kMaxNodes = 10000;
inline constexpr int kMaxWorkersPerNode = 4096;
inline constexpr int kMaxEndpoints = 16;
inline constexpr int kMaxEarlier = 64;  // generations before one that others may still follow
inline constexpr int kMaxRestarts = 1000000000;
inline constexpr int kMaxPort = 65535;
inline constexpr uint64_t kMaxGenerationNumber = uint64_t{1} << 53;
inline constexpr int64_t kMaxNanoseconds = int64_t{366} * 24 * 3600 * 1000000000;

/// Bound of a number, of a duration in nanoseconds, of how many elements a list has.
struct Range {
  int64_t low = 0, high = 0;
};
/// Bound of a text, or of each text of a list, in bytes. What is sent is cut to it.
struct Size {
  size_t least = 0, most = 0;
};
struct List {
  Range count;
  Size each;  // of a list of texts
};
struct Unbound {};

template <typename T>
concept HasFields = requires(T& value) {
  T::Fields(value, [](const char*, auto&, auto...) {});
};

}  // namespace mtrun::rendezvous
