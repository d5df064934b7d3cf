// JSON that others wrote: files, messages, headers. Every parse of it goes through here, so that its size and
// its depth are bounded and no exception escapes. Pure.
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace mtrun {

/// Levels of [ and { that are read where the caller knows no bound of its own. Copying and printing a value
/// recurses into each of them, so deeper text could exhaust the stack.
inline constexpr int kMostJsonDepth = 64;

/// The value that `text` is. kInvalidArgument says what is wrong with it and where: it is longer than
/// `most_bytes`, nested deeper than `most_depth`, or not JSON.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, size_t most_bytes,
                                         int most_depth = kMostJsonDepth);

/// The same for what must be an object.
absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text, size_t most_bytes);

/// The whole number that `value` is; nothing where it is none or an Int cannot hold it.
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
