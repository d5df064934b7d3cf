// Protobuf's wire format (protobuf.dev/programming-guides/encoding), as far as events need it. Appends fields
// to a string, each with its number first. The programs that write events do not link protobuf, because
// LibTorch includes another version. Pure functions.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace mtrun::tensorboard::wire {

/// Appends a little-endian number without a field number.
template <typename Number>
void AppendFixed(std::string& out, Number number) {
  static_assert(std::endian::native == std::endian::little);
  out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

void AppendVarint(std::string& out, uint64_t number);

// Fields with their numbers.
void AppendInt(std::string& out, int field, int64_t value);
void AppendFloat(std::string& out, int field, float value);
void AppendDouble(std::string& out, int field, double value);
/// Appends a string, bytes, or a nested message.
void AppendBytes(std::string& out, int field, std::string_view value);

}  // namespace mtrun::tensorboard::wire
