#include "datasets/packed/class_list.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace mtrun::datasets {

int64_t SmallNumber(std::string_view text) {
  int64_t number = -1;
  const bool digits = !text.empty() && text.size() <= 9 &&
                      std::all_of(text.begin(), text.end(), [](char c) { return absl::ascii_isdigit(c); });
  return digits && absl::SimpleAtoi(absl::string_view(text.data(), text.size()), &number) ? number : -1;
}

absl::Status CheckClassName(std::string_view name) {
  const bool clean = name.find('/') == std::string_view::npos && IsPlainText(name);
  if (!name.empty() && name[0] != '.' && clean && name.size() <= 256) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("\"", absl::CHexEscape(absl::string_view(name.data(), std::min<size_t>(name.size(), 60))),
                   "\" cannot be the name of a class"));
}

absl::StatusOr<ClassList> ParseClassList(std::string_view text) {
  ClassList list;
  std::set<std::string> seen;
  size_t number = 0;
  for (const absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    ++number;
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r,"), absl::SkipEmpty());
    if (words.empty()) continue;
    const auto refuse = [&](absl::string_view why) {
      return absl::InvalidArgumentError(absl::StrCat("line ", number, ": ", why));
    };
    const int64_t id = words.size() > 1 ? SmallNumber({words[0].data(), words[0].size()}) : -1;
    const std::string name(words[id >= 0 ? 1 : 0]);
    if (const absl::Status fits = CheckClassName(name); !fits.ok()) return refuse(fits.message());
    if (!seen.insert(name).second) return refuse(absl::StrCat("class ", name, " occurs twice"));
    if ((id >= 0) != !list.ids.empty() && !list.names.empty())
      return refuse("only some of the lines begin with a number");
    if (id >= kMaxClasses || static_cast<int64_t>(list.names.size()) >= kMaxClasses)
      return refuse(absl::StrCat("more than ", kMaxClasses, " classes"));
    if (id >= 0 && !list.ids.emplace(id, name).second)
      return refuse(absl::StrCat("number ", id, " occurs twice"));
    list.names.push_back(name);
  }
  if (list.names.empty()) return absl::InvalidArgumentError("it contains no class");
  return list;
}

}  // namespace mtrun::datasets
