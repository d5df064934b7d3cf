#include "datasets/import/ground_truth.h"

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace mtrun::datasets {
namespace {

struct Line {
  absl::string_view file;  // without its extension; "" if the line has none
  absl::string_view label;
  size_t number = 0;
};

absl::string_view Stem(absl::string_view name) { return name.substr(0, name.rfind('.')); }

absl::Status LineError(size_t number, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("line ", number, ": ", why));
}

absl::StatusOr<std::vector<Line>> ReadLines(absl::string_view text) {
  std::vector<Line> lines;
  const bool csv = absl::StartsWith(text, "ImageId,");
  size_t number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (csv && number == 1) continue;
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r,"), absl::SkipEmpty());
    if (words.empty()) continue;
    if (csv ? words.size() < 2 : words.size() > 2)
      return LineError(number, csv ? "expected <file>,<class> ..." : "expected <class>, or <file> <class>");
    const bool named = words.size() > 1;
    if (!lines.empty() && named != !lines.front().file.empty())
      return LineError(number, "only some of the lines name a file");
    lines.push_back({named ? Stem(words[0]) : absl::string_view(), words[named ? 1 : 0], number});
  }
  if (lines.empty()) return absl::InvalidArgumentError("it contains no class");
  return lines;
}

int64_t NumberOf(const Line& line) { return SmallNumber({line.label.data(), line.label.size()}); }

/// Returns the number of the class list's first line: 0 or 1.
absl::StatusOr<int64_t> FindBase(const std::vector<Line>& lines, const ClassList& classes) {
  const auto less = [](const Line& a, const Line& b) { return NumberOf(a) < NumberOf(b); };
  const int64_t smallest = NumberOf(*std::min_element(lines.begin(), lines.end(), less));
  const int64_t largest = NumberOf(*std::max_element(lines.begin(), lines.end(), less));
  const auto count = static_cast<int64_t>(classes.names.size());
  if (smallest == 0 && largest < count) return 0;
  if (smallest == 0 || largest != count)
    return absl::InvalidArgumentError(absl::StrCat(
        "its numbers range from ", smallest, " to ", largest, ", but the class list has ", count,
        " classes, so it is unclear whether the numbers start at 0 or 1; write a number before each name in "
        "the class list"));
  if (count > 1 && lines.front().file.empty() && std::is_sorted(classes.names.begin(), classes.names.end()))
    return absl::InvalidArgumentError(
        "its numbers start at 1, so they are ILSVRC2012_IDs, but the class list is sorted by name, which is "
        "a different order; write \"<ILSVRC2012_ID> <name>\" lines, taken from the devkit's meta.mat");
  return 1;
}

/// Returns the class name of each label.
absl::StatusOr<std::vector<std::string>> Names(const std::vector<Line>& lines,
                                               const std::optional<ClassList>& classes) {
  std::vector<std::string> names;
  if (!std::all_of(lines.begin(), lines.end(), [](const Line& line) { return NumberOf(line) >= 0; })) {
    for (const Line& line : lines) names.emplace_back(line.label);
    return names;
  }
  if (!classes)
    return absl::InvalidArgumentError(
        "it identifies classes by number; give --class_list FILE with their names");
  int64_t base = 0;
  if (classes->ids.empty()) {
    MT_ASSIGN_OR_RETURN(base, FindBase(lines, *classes));
  }
  for (const Line& line : lines) {
    const int64_t number = NumberOf(line) - base;
    if (classes->ids.empty()) {
      names.push_back(classes->names[static_cast<size_t>(number)]);
      continue;
    }
    const auto found = classes->ids.find(number);
    if (found == classes->ids.end())
      return LineError(line.number, absl::StrCat("number missing in the class list: ", number));
    names.push_back(found->second);
  }
  return names;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> FindClasses(std::string_view text,
                                                     const std::optional<ClassList>& classes,
                                                     absl::Span<const absl::string_view> files) {
  MT_ASSIGN_OR_RETURN(const std::vector<Line> lines, ReadLines({text.data(), text.size()}));
  MT_ASSIGN_OR_RETURN(std::vector<std::string> names, Names(lines, classes));
  if (lines.front().file.empty()) {
    if (lines.size() == files.size()) return names;
    return absl::InvalidArgumentError(
        absl::StrCat("it has ", lines.size(), " lines for ", files.size(), " images"));
  }
  std::map<absl::string_view, size_t> by_file;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!by_file.emplace(lines[i].file, i).second)
      return LineError(
          lines[i].number,
          absl::StrCat(AsPlainText({lines[i].file.data(), lines[i].file.size()}), " occurs twice"));
  }
  std::vector<std::string> found;
  for (const absl::string_view file : files) {
    const auto at = by_file.find(Stem(file));
    if (at == by_file.end())
      return absl::InvalidArgumentError(
          absl::StrCat("it has no line for ", AsPlainText({file.data(), file.size()})));
    found.push_back(names[at->second]);
  }
  return found;
}

}  // namespace mtrun::datasets
