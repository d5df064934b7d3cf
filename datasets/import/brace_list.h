// Expands one pattern into the names of many files, in the syntax of shells and WebDataset. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun::datasets {

constexpr size_t kMaxBraceNames = 100'000;

/// Expands "a-{000..146}.tar" or "{x,y}.tar". A range of whole numbers is padded to its wider end if that one
/// begins with 0. Any number of braces, but not nested; a text without braces expands to itself.
/// kInvalidArgument: an unpaired brace, an empty or descending range, more than kMaxBraceNames names.
absl::StatusOr<std::vector<std::string>> ExpandBraces(std::string_view text);

}  // namespace mtrun::datasets
