// Names of classes in the order of their numbers, from a text file. Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun::datasets {

/// More classes than this are a mistake: every split keeps a count for each.
constexpr int64_t kMaxClasses = 100'000;

struct ClassList {
  std::vector<std::string> names;      // in the order of the lines
  std::map<int64_t, std::string> ids;  // the numbers in the lines; empty if they have none
  bool operator==(const ClassList&) const = default;
};

/// Parses one class per line: the name is the first word, or the second one if the first is a number. Ignores
/// the rest of the line ("n01440764 tench", "449 n01440764 tench") and empty lines. kInvalidArgument names
/// the line: a duplicate name or number, numbers on some lines only, a name that cannot be a folder.
absl::StatusOr<ClassList> ParseClassList(std::string_view text);

/// kInvalidArgument: empty, ".x", with "/" or control characters, or not UTF-8.
absl::Status CheckClassName(std::string_view name);

/// Returns an unsigned number of at most nine digits; -1 for all other texts.
int64_t SmallNumber(std::string_view text);

}  // namespace mtrun::datasets
