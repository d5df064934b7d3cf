#include "datasets/import/brace_list.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "datasets/packed/class_list.h"

namespace mtrun::datasets {
namespace {

absl::Status Refuse(absl::string_view braces, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("{", braces.substr(0, 60), "}: ", why));
}

/// Returns the alternatives of one pair of braces.
absl::StatusOr<std::vector<std::string>> Choices(absl::string_view inside) {
  const size_t dots = inside.find("..");
  if (dots == absl::string_view::npos) {
    std::vector<std::string> names = absl::StrSplit(inside, ',');
    if (names.size() < 2)
      return Refuse(inside, "expected a range such as {000..146} or a list such as {a,b}");
    return names;
  }
  const absl::string_view first = inside.substr(0, dots), last = inside.substr(dots + 2);
  const int64_t from = SmallNumber({first.data(), first.size()}),
                to = SmallNumber({last.data(), last.size()});
  if (from < 0 || to < 0)
    return Refuse(inside, "the ends of a range must be whole numbers of at most 9 digits");
  if (to < from) return Refuse(inside, "the range is descending");
  if (to - from >= static_cast<int64_t>(kMaxBraceNames)) return Refuse(inside, "too many names");
  const auto is_padded = [](absl::string_view number) { return number.size() > 1 && number[0] == '0'; };
  const bool padded = is_padded(first) || is_padded(last);
  const int width = padded ? static_cast<int>(std::max(first.size(), last.size())) : 1;
  std::vector<std::string> names;
  for (int64_t i = from; i <= to; ++i) names.push_back(absl::StrFormat("%0*d", width, i));
  return names;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandBraces(std::string_view text) {
  std::vector<std::string> names{""};
  const auto append = [&](const std::vector<std::string>& choices) -> absl::Status {
    if (choices.size() > kMaxBraceNames / names.size())
      return absl::InvalidArgumentError(absl::StrCat("it names more than ", kMaxBraceNames, " files"));
    std::vector<std::string> longer;
    longer.reserve(names.size() * choices.size());
    for (const std::string& name : names) {
      for (const std::string& choice : choices) longer.push_back(name + choice);
    }
    names = std::move(longer);
    return absl::OkStatus();
  };
  absl::string_view rest(text.data(), text.size());
  while (!rest.empty()) {
    const size_t open = rest.find_first_of("{}");
    MT_RETURN_IF_ERROR(append({std::string(rest.substr(0, open))}));
    if (open == absl::string_view::npos) break;
    const size_t close = rest.find_first_of("{}", open + 1);
    if (rest[open] == '}' || close == absl::string_view::npos || rest[close] == '{')
      return absl::InvalidArgumentError("braces are unbalanced or nested");
    MT_ASSIGN_OR_RETURN(const auto choices, Choices(rest.substr(open + 1, close - open - 1)));
    MT_RETURN_IF_ERROR(append(choices));
    rest.remove_prefix(close + 1);
  }
  return names;
}

}  // namespace mtrun::datasets
