// Maps a message's list of fields (fields.h) to its wire message and back, by name. Internal to the codec.
#pragma once

#include <google/protobuf/message.h>

#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/worker_channel.h"
#include "rendezvous/wire/fields.h"

namespace mtrun::rendezvous::codec {

using Wire = google::protobuf::Message;
using Column = const google::protobuf::FieldDescriptor*;

/// Returns the wire field of this name, or the first field of the oneof of this name; aborts the program if
/// the wire message has none.
Column ColumnOf(const google::protobuf::Descriptor& wire, const std::string& name);

/// Returns the wire fields of a message in the order of its list, looked up once.
template <HasFields Message>
const std::vector<Column>& ColumnsOf(const Wire& wire) {
  static const auto* const columns = [&] {
    auto* found = new std::vector<Column>();
    Message message;
    Message::Fields(message, [&]<typename T>(const char* name, T&, auto...) {
      const bool duration = std::is_same_v<T, Duration>;
      found->push_back(ColumnOf(*wire.GetDescriptor(), absl::StrCat(name, duration ? "_ns" : "")));
    });
    return found;
  }();
  return *columns;
}

/// Returns at most kMaxName bytes of `text`, in whole characters, with each byte that is not UTF-8 replaced
/// by '?'. protobuf refuses to send a `string` that is not UTF-8; names come from flags and the kernel.
std::string Utf8(const std::string& text);
/// Returns at most kMaxText bytes of a text for people.
std::string Bounded(const std::string& text);
/// Returns `text` in the form that its field allows.
std::string Sendable(const std::string& text, Column column, const Size& size);
/// Returns a text from another process in the form that a terminal or a log can show: names (up to kMaxName
/// bytes) on one line, texts for people (up to kMaxText) as lines, control characters escaped. Longer ones,
/// and those without a bound, are data.
std::string Showable(const std::string& text, const Size& size);
void PutGeneration(const channel::Generation& generation, Column column, Wire* out);
void PutMap(const std::map<std::string, std::string>& map, Column column, Wire* out);
channel::Generation TakeGeneration(const Wire& in, Column column);
std::map<std::string, std::string> TakeMap(const Wire& in, Column column);

template <HasFields Message>
void Encode(const Message& message, Wire* out);
template <HasFields Message>
void Decode(const Wire& in, Message* message);

inline Size SizeOf(const Size& size) { return size; }
inline Size SizeOf(const List& list) { return list.each; }
template <typename Bound>
Size SizeOf(const Bound&) {
  return {0, std::string::npos};
}

template <typename T>
void Put(const T& value, Column column, const Size& size, Wire* out) {
  const google::protobuf::Reflection& wire = *out->GetReflection();
  if constexpr (std::is_same_v<T, bool>) {
    wire.SetBool(out, column, value);
  } else if constexpr (std::is_same_v<T, int> || std::is_enum_v<T>) {
    wire.SetInt32(out, column, static_cast<int>(value));
  } else if constexpr (std::is_same_v<T, int64_t>) {
    wire.SetInt64(out, column, value);
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    wire.SetUInt64(out, column, value);
  } else if constexpr (std::is_same_v<T, double>) {
    wire.SetDouble(out, column, value);
  } else if constexpr (std::is_same_v<T, Duration>) {
    wire.SetInt64(out, column, value.count());
  } else if constexpr (std::is_same_v<T, std::string>) {
    wire.SetString(out, column, Sendable(value, column, size));
  } else if constexpr (std::is_same_v<T, channel::Generation>) {
    PutGeneration(value, column, out);
  } else if constexpr (std::is_same_v<T, std::map<std::string, std::string>>) {
    PutMap(value, column, out);
  } else {
    Encode(value, wire.MutableMessage(out, column));
  }
}
template <typename T>
void Put(const std::optional<T>& value, Column column, const Size& size, Wire* out) {
  if (value) Put(*value, column, size, out);
}
template <typename T>
void Put(const std::vector<T>& values, Column column, const Size& size, Wire* out) {
  const google::protobuf::Reflection& wire = *out->GetReflection();
  for (const T& value : values) {
    if constexpr (std::is_same_v<T, std::string>) {
      wire.AddString(out, column, Sendable(value, column, size));
    } else {
      Encode(value, wire.AddMessage(out, column));
    }
  }
}
/// Returns the field of the oneof of `column` for the alternative at `index`. The fields are in the order of
/// the alternatives; monostate, always the first, has none.
template <typename First, typename... Others>
Column FieldAt(size_t index, Column column) {
  const int before = std::is_same_v<First, std::monostate> ? 1 : 0;
  return column->containing_oneof()->field(static_cast<int>(index) - before);
}
/// Writes the alternative as a field of the oneof, unless it lists no fields.
template <typename... Ts>
void Put(const std::variant<Ts...>& value, Column column, const Size& size, Wire* out) {
  const auto put = [&]<typename T>(const T& one) {
    if constexpr (HasFields<T>) Put(one, FieldAt<Ts...>(value.index(), column), size, out);
  };
  std::visit(put, value);
}

template <typename T>
void Take(const Wire& in, Column column, [[maybe_unused]] const Size& size, T* value) {
  const google::protobuf::Reflection& wire = *in.GetReflection();
  if constexpr (std::is_same_v<T, bool>) {
    *value = wire.GetBool(in, column);
  } else if constexpr (std::is_same_v<T, int> || std::is_enum_v<T>) {
    *value = static_cast<T>(wire.GetInt32(in, column));
  } else if constexpr (std::is_same_v<T, int64_t>) {
    *value = wire.GetInt64(in, column);
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    *value = wire.GetUInt64(in, column);
  } else if constexpr (std::is_same_v<T, double>) {
    *value = wire.GetDouble(in, column);
  } else if constexpr (std::is_same_v<T, Duration>) {
    *value = Duration(wire.GetInt64(in, column));
  } else if constexpr (std::is_same_v<T, std::string>) {
    *value = Showable(wire.GetString(in, column), size);
  } else if constexpr (std::is_same_v<T, channel::Generation>) {
    *value = TakeGeneration(in, column);
  } else if constexpr (std::is_same_v<T, std::map<std::string, std::string>>) {
    *value = TakeMap(in, column);
  } else {
    Decode(wire.GetMessage(in, column), value);
  }
}
template <typename T>
void Take(const Wire& in, Column column, const Size& size, std::optional<T>* value) {
  if (in.GetReflection()->HasField(in, column)) Take(in, column, size, &value->emplace());
}
template <typename T>
void Take(const Wire& in, Column column, [[maybe_unused]] const Size& size, std::vector<T>* values) {
  const google::protobuf::Reflection& wire = *in.GetReflection();
  const int count = wire.FieldSize(in, column);
  values->reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<T, std::string>) {
      values->push_back(Showable(wire.GetRepeatedString(in, column, i), size));
    } else {
      Decode(wire.GetRepeatedMessage(in, column, i), &values->emplace_back());
    }
  }
}
template <typename... Ts>
void Take(const Wire& in, Column column, const Size& size, std::variant<Ts...>* value) {
  size_t next = 0;
  const auto take = [&]<typename T>(std::type_identity<T>) {
    [[maybe_unused]] const size_t index = next++;
    if constexpr (HasFields<T>) {
      const Column set = FieldAt<Ts...>(index, column);
      if (in.GetReflection()->HasField(in, set)) Take(in, set, size, &value->template emplace<T>());
    }
  };
  (take(std::type_identity<Ts>()), ...);
}

template <HasFields Message>
void Encode(const Message& message, Wire* out) {
  auto column = ColumnsOf<Message>(*out).begin();
  Message::Fields(
      message, [&]<typename T, typename Bound = Unbound>(const char*, const T& value, Bound bound = {}) {
        Put(value, *column++, SizeOf(bound), out);
      });
}

/// Does not check the message: call Validate if it comes from outside.
template <HasFields Message>
void Decode(const Wire& in, Message* message) {
  auto column = ColumnsOf<Message>(in).begin();
  Message::Fields(
      *message, [&]<typename T, typename Bound = Unbound>(const char*, T& value, Bound bound = {}) {
        Take(in, *column++, SizeOf(bound), &value);
      });
}

}  // namespace mtrun::rendezvous::codec
