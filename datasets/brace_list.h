// Names of many files in one text, as shells and WebDataset write them. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun::datasets {

constexpr size_t kMostBraceNames = 100'000;

/// "a-{000..146}.tar" or "{x,y}.tar": a range of whole numbers, as wide as its wider end is written where
/// that begins with 0, or a list; any number of braces, one in another is refused. A text without braces is
/// itself. kInvalidArgument: a brace without its partner, an empty or downward range, more than
/// kMostBraceNames names.
absl::StatusOr<std::vector<std::string>> ExpandBraces(std::string_view text);

}  // namespace mtrun::datasets
