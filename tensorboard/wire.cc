#include "tensorboard/wire.h"

namespace mtrun::tensorboard::wire {
namespace {

enum WireType : uint64_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

void AppendTag(std::string& out, int field, WireType type) {
  AppendVarint(out, static_cast<uint64_t>(field) << 3 | type);
}

}  // namespace

void AppendVarint(std::string& out, uint64_t number) {
  for (; number >= 0x80; number >>= 7) out.push_back(static_cast<char>(number | 0x80));
  out.push_back(static_cast<char>(number));
}

void AppendInt(std::string& out, int field, int64_t value) {
  AppendTag(out, field, kVarint);
  AppendVarint(out, static_cast<uint64_t>(value));
}

void AppendFloat(std::string& out, int field, float value) {
  AppendTag(out, field, kFixed32);
  AppendFixed(out, value);
}

void AppendDouble(std::string& out, int field, double value) {
  AppendTag(out, field, kFixed64);
  AppendFixed(out, value);
}

void AppendBytes(std::string& out, int field, std::string_view value) {
  AppendTag(out, field, kLengthDelimited);
  AppendVarint(out, value.size());
  out += value;
}

}  // namespace mtrun::tensorboard::wire
