#include "rendezvous/wire/codec_fields.h"

#include <algorithm>
#include <cstdint>

#include "base/status_macros.h"
#include "base/utf8.h"
#include "rendezvous/wire/rendezvous.pb.h"

namespace mtrun::rendezvous::codec {

Column ColumnOf(const google::protobuf::Descriptor& wire, const std::string& name) {
  const google::protobuf::OneofDescriptor* const oneof = wire.FindOneofByName(name);
  const Column column = oneof != nullptr ? oneof->field(0) : wire.FindFieldByName(name);
  MT_CHECK(column != nullptr) << wire.name() << " in rendezvous.proto has no field " << name;
  return column;
}

std::string Utf8(const std::string& text) {
  std::string clean;
  for (size_t at = 0; at < text.size();) {
    const size_t length = mtrun::CharacterLength(text, at);
    const size_t taken = std::max<size_t>(length, 1);
    if (clean.size() + taken > kMaxName) break;
    clean += length == 0 ? "?" : text.substr(at, length);
    at += taken;
  }
  return clean;
}

std::string Bounded(const std::string& text) { return text.substr(0, kMaxText); }

std::string Sendable(const std::string& text, Column column, const Size& size) {
  const bool bytes = column->type() == google::protobuf::FieldDescriptor::TYPE_BYTES;
  return bytes ? text.substr(0, size.most) : Utf8(text);
}

std::string Showable(const std::string& text, const Size& size) {
  if (size.data || size.most > kMaxText) return text;
  std::string shown = size.most <= kMaxName ? AsPlainText(text) : AsPlainLines(text);
  size_t end = std::min(shown.size(), std::max(size.most, text.size()));  // one that is too long stays so
  while (end < shown.size() && (static_cast<uint8_t>(shown[end]) & 0xC0) == 0x80) --end;  // whole characters
  shown.resize(end);
  return shown;
}

void PutGeneration(const channel::Generation& generation, Column column, Wire* out) {
  auto* const wire = static_cast<wire::Generation*>(out->GetReflection()->MutableMessage(out, column));
  wire->set_number(generation.number);
  wire->set_id(generation.id);
}

channel::Generation TakeGeneration(const Wire& in, Column column) {
  const auto& wire = static_cast<const wire::Generation&>(in.GetReflection()->GetMessage(in, column));
  return {wire.number(), wire.id()};
}

void PutMap(const std::map<std::string, std::string>& map, Column column, Wire* out) {
  for (const auto& [key, value] : map) {
    auto* const entry = static_cast<wire::StoreEntry*>(out->GetReflection()->AddMessage(out, column));
    entry->set_key(key);
    entry->set_value(value);
  }
}

std::map<std::string, std::string> TakeMap(const Wire& in, Column column) {
  std::map<std::string, std::string> map;
  const google::protobuf::Reflection& reflection = *in.GetReflection();
  for (int i = 0; i < reflection.FieldSize(in, column); ++i) {
    const auto& entry = static_cast<const wire::StoreEntry&>(reflection.GetRepeatedMessage(in, column, i));
    map[entry.key()] = entry.value();
  }
  return map;
}

}  // namespace mtrun::rendezvous::codec
