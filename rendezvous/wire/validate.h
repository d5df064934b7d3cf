// Checks that the fields of a message from outside are within their bounds. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "base/worker_channel.h"
#include "rendezvous/wire/fields.h"

namespace mtrun::rendezvous {

/// Returns kInvalidArgument with the first field out of bounds: "workers is 0, 1 to 4096 are allowed".
template <HasFields Message>
absl::Status Validate(const Message& message);

namespace validate {

inline absl::Status Check(absl::string_view name, int64_t value, const Range& range) {
  if (value >= range.low && value <= range.high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", value, ", ", range.low, " to ", range.high, " are allowed"));
}
inline absl::Status Check(absl::string_view name, Duration value, const Range& range) {
  const absl::Status in_range = Check(name, value.count(), range);
  return in_range.ok() ? in_range : Check(absl::StrCat(name, " (ns)"), value.count(), range);
}
inline absl::Status Check(absl::string_view name, const std::string& text, const Size& size) {
  if (text.size() >= size.least && text.size() <= size.most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " has ", text.size(), " bytes, ", size.least, " to ", size.most, " are allowed"));
}
inline absl::Status Check(absl::string_view name, const std::vector<std::string>& texts, const List& list) {
  MT_RETURN_IF_ERROR(Check(name, static_cast<int64_t>(texts.size()), list.count));
  for (const std::string& text : texts) MT_RETURN_IF_ERROR(Check(name, text, list.each));
  return absl::OkStatus();
}
template <HasFields T>
absl::Status Check(absl::string_view name, const std::vector<T>& messages, const List& list) {
  MT_RETURN_IF_ERROR(Check(name, static_cast<int64_t>(messages.size()), list.count));
  for (const T& message : messages) MT_RETURN_IF_ERROR(Validate(message));
  return absl::OkStatus();
}
inline absl::Status Check(absl::string_view, const channel::Generation& generation, const Unbound&) {
  if (generation.number <= kMaxGenerationNumber) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("generation number is ", generation.number, ", at most ",
                                                 kMaxGenerationNumber, " is allowed"));
}
template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <typename T>
requires(!kIsOptional<T>) absl::Status Check(absl::string_view, const T& value, const Unbound&) {
  if constexpr (HasFields<T>) return Validate(value);
  return absl::OkStatus();
}
template <typename... Ts>
absl::Status Check(absl::string_view name, const std::variant<Ts...>& value, const Unbound& bound) {
  return std::visit([&](const auto& one) { return Check(name, one, bound); }, value);
}
template <typename T, typename Bound>
absl::Status Check(absl::string_view name, const std::optional<T>& value, const Bound& bound) {
  return value ? Check(name, *value, bound) : absl::OkStatus();
}

}  // namespace validate

template <HasFields Message>
absl::Status Validate(const Message& message) {
  absl::Status status;
  Message::Fields(
      message, [&]<typename T, typename Bound = Unbound>(const char* name, const T& value, Bound bound = {}) {
        if (status.ok()) status = validate::Check(name, value, bound);
      });
  return status;
}

}  // namespace mtrun::rendezvous
