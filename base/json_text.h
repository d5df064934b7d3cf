// Parses JSON from outside: files, messages, headers. Every such parse goes through here, so that size and
// depth are bounded and no exception escapes. Pure.
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace mtrun {

/// Default bound on nested [ and {. Copying and printing a value recurses into each level, so deeper text
/// could exhaust the stack.
inline constexpr int kMaxJsonDepth = 64;

/// Parses `text`. kInvalidArgument says what is wrong and where: longer than `most_bytes`, nested deeper than
/// `most_depth`, or not JSON.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, size_t most_bytes,
                                         int most_depth = kMaxJsonDepth);

/// Parses `text`, which must be an object.
absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text, size_t most_bytes);

/// Returns JSON on one line, with its '\n'. Invalid UTF-8 is replaced, not an error.
std::string JsonLine(const nlohmann::json& value);

/// Receives the values of a text one by one, so that a reader keeps only what it needs. Each function returns
/// false to end the parse.
class JsonEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool binary(binary_t&) final { return false; }  // not in texts
  bool parse_error(size_t position, const std::string& token, const nlohmann::json::exception& why) final;
  /// Returns why the text is not JSON, if it is not.
  const absl::Status& error() const { return error_; }

 private:
  absl::Status error_;
};

/// Parses `text` into `events`, within the bounds of ParseJson and with its errors. kAborted: `events` ended
/// the parse.
absl::Status ParseJsonEvents(std::string_view text, size_t most_bytes, JsonEvents& events);

/// Returns `value` as a whole number; nothing if it is not one or an Int cannot hold it.
template <std::integral Int>
std::optional<Int> WholeNumber(const nlohmann::json& value) {
  const auto fitting = [](auto number) {
    return std::in_range<Int>(number) ? std::optional(static_cast<Int>(number)) : std::nullopt;
  };
  if (value.is_number_unsigned()) return fitting(value.get<uint64_t>());
  if (value.is_number_integer()) return fitting(value.get<int64_t>());
  return std::nullopt;
}

}  // namespace mtrun
