// Protobuf's wire format (protobuf.dev/programming-guides/encoding), as much of it as events need: appends
// fields to a string, field numbers first. The programs that write events link no protobuf: LibTorch brings
// another version of it. Pure functions.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace mtrun::tensorboard::wire {

/// Little-endian, without a field number.
template <typename Number>
void AppendFixed(std::string& out, Number number) {
  static_assert(std::endian::native == std::endian::little);
  out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

void AppendVarint(std::string& out, uint64_t number);

// Fields.
void AppendInt(std::string& out, int field, int64_t value);
void AppendFloat(std::string& out, int field, float value);
void AppendDouble(std::string& out, int field, double value);
/// Strings, bytes and messages within messages.
void AppendBytes(std::string& out, int field, std::string_view value);

}  // namespace mtrun::tensorboard::wire
