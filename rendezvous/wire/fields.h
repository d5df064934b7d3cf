// Lists the fields of a message between agents and service, once: a static Fields(self, field) calls
// field(name, member, bound) for each. The codec's two directions, the checks of messages from outside
// (validate.h) and the comparison of settings use the list. The name is the one in rendezvous.proto, where
// _ns is appended for a duration.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mtrun::rendezvous {

inline constexpr size_t kMaxName = 256;       // ids, host names, roles
inline constexpr size_t kMaxText = 64 << 10;  // reasons, error messages
inline constexpr int kMaxNodes = 10000;
inline constexpr int kMaxWorkersPerNode = 4096;
inline constexpr int kMaxEndpoints = 16;
inline constexpr int kMaxEarlier = 64;  // earlier generations that others may still follow
inline constexpr int kMaxRestarts = 1000000000;
inline constexpr int kMaxPort = 65535;
inline constexpr uint64_t kMaxGenerationNumber = uint64_t{1} << 53;
inline constexpr int64_t kMaxNanoseconds = int64_t{366} * 24 * 3600 * 1000000000;

/// Bounds of a number, of a duration in nanoseconds, or of the number of elements in a list.
struct Range {
  int64_t low = 0, high = 0;
};
/// Bounds of a text, or of each text in a list, in bytes. Texts to be sent are cut to them.
struct Size {
  size_t least = 0, most = 0;
  bool data = false;  // bytes of a program, which are passed on unchanged
};
struct List {
  Range count;
  Size each;  // for a list of texts
};
struct Unbound {};

template <typename T>
concept HasFields = requires(T& value) {
  T::Fields(value, [](const char*, auto&, auto...) {});
};

}  // namespace mtrun::rendezvous
