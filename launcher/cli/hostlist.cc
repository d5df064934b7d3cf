#include "launcher/cli/hostlist.h"

#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "base/string_view.h"

namespace mtrun::launcher {
namespace {

constexpr size_t kMaxDigits = 9, kMaxLength = 1 << 20, kMaxName = 253;

absl::Status Malformed(std::string_view text, absl::string_view why) {
  constexpr size_t kShown = 80;
  return absl::InvalidArgumentError(
      absl::StrCat("\"", absl::CHexEscape(View(text.substr(0, kShown))), "\" is not a list of hosts: ", why));
}

bool IsNameCharacter(char c) { return absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_'; }

absl::StatusOr<int64_t> ReadNumber(std::string_view text, std::string_view digits) {
  int64_t number = 0;
  for (const char c : digits) {
    if (!absl::ascii_isdigit(c)) return Malformed(text, "only numbers and ranges can be in brackets");
    number = 10 * number + (c - '0');
  }
  if (digits.empty()) return Malformed(text, "a number is missing in brackets");
  return number;
}

/// Appends the numbers of "001-003" as texts of the same width.
absl::Status AddRange(std::string_view text, std::string_view range, std::vector<std::string>* numbers) {
  const size_t dash = range.find('-');
  const std::string_view low = range.substr(0, dash);
  const std::string_view high = dash == std::string_view::npos ? low : range.substr(dash + 1);
  if (low.size() > kMaxDigits || high.size() > kMaxDigits) return Malformed(text, "a number is too long");
  MT_ASSIGN_OR_RETURN(const int64_t first, ReadNumber(text, low));
  MT_ASSIGN_OR_RETURN(const int64_t last, ReadNumber(text, high));
  if (last < first) return Malformed(text, "a range is descending");
  if (static_cast<size_t>(last - first) >= kMaxHosts - numbers->size())
    return Malformed(text, absl::StrCat("it names more than ", kMaxHosts, " hosts"));
  for (int64_t n = first; n <= last; ++n)
    numbers->push_back(absl::StrFormat("%0*d", static_cast<int>(low.size()), n));
  return absl::OkStatus();
}

/// Appends every number in the brackets to every name so far.
absl::Status Multiply(std::string_view text, std::string_view inside, std::vector<std::string>* names) {
  std::vector<std::string> numbers;
  for (const absl::string_view range : absl::StrSplit(View(inside), ','))
    MT_RETURN_IF_ERROR(AddRange(text, std::string_view(range.data(), range.size()), &numbers));
  if (names->size() * numbers.size() > kMaxHosts)
    return Malformed(text, absl::StrCat("it names more than ", kMaxHosts, " hosts"));
  std::vector<std::string> longer;
  for (const std::string& name : *names)
    for (const std::string& number : numbers) longer.push_back(name + number);
  *names = std::move(longer);
  return absl::OkStatus();
}

absl::Status AddItem(std::string_view text, std::string_view item, std::vector<std::string>* hosts) {
  std::vector<std::string> names = {""};
  for (size_t i = 0; i < item.size();) {
    if (item[i] == '[') {
      const size_t close = item.find(']', i);
      if (close == std::string_view::npos) return Malformed(text, "a bracket is not closed");
      MT_RETURN_IF_ERROR(Multiply(text, item.substr(i + 1, close - i - 1), &names));
      i = close + 1;
    } else {
      if (!IsNameCharacter(item[i])) return Malformed(text, "it has a character that host names cannot have");
      for (std::string& name : names) name += item[i];
      ++i;
    }
    if (names.front().size() > kMaxName) return Malformed(text, "a name is too long");
  }
  if (names.front().empty()) return Malformed(text, "a name is empty");
  if (names.front().front() == '-') return Malformed(text, "a name begins with a dash");
  if (hosts->size() + names.size() > kMaxHosts)
    return Malformed(text, absl::StrCat("it names more than ", kMaxHosts, " hosts"));
  hosts->insert(hosts->end(), names.begin(), names.end());
  return absl::OkStatus();
}

}  // namespace

size_t EndOfHostlistItem(std::string_view text, size_t begin) {
  bool inside = false;
  for (size_t i = begin; i < text.size(); ++i) {
    if (text[i] == '[') inside = true;
    if (text[i] == ']') inside = false;
    if (text[i] == ',' && !inside) return i;
  }
  return text.size();
}

absl::StatusOr<std::vector<std::string>> ExpandHostlist(std::string_view text) {
  if (text.empty() || text.size() > kMaxLength) return Malformed(text, "it is empty or too long");
  std::vector<std::string> hosts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = EndOfHostlistItem(text, begin);
    MT_RETURN_IF_ERROR(AddItem(text, text.substr(begin, end - begin), &hosts));
    begin = end + 1;
  }
  return hosts;
}

absl::StatusOr<std::vector<int>> ExpandCounts(std::string_view text) {
  const absl::Status malformed = absl::InvalidArgumentError(
      absl::StrCat("\"", absl::CHexEscape(View(text.substr(0, 80))), "\" is not of the form 2(x3),1"));
  std::vector<int> counts;
  for (absl::string_view part : absl::StrSplit(View(text), ',')) {
    int count = 0, times = 1;
    const size_t open = part.find("(x");
    if (open != absl::string_view::npos) {
      if (part.back() != ')' || !absl::SimpleAtoi(part.substr(open + 2, part.size() - open - 3), &times))
        return malformed;
      part = part.substr(0, open);
    }
    if (!absl::SimpleAtoi(part, &count) || count < 0 || times < 1) return malformed;
    if (static_cast<size_t>(times) > kMaxHosts - counts.size()) return malformed;
    counts.insert(counts.end(), static_cast<size_t>(times), count);
  }
  return counts;
}

}  // namespace mtrun::launcher
