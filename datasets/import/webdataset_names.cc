#include "datasets/import/webdataset_names.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/json_text.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "datasets/files/file_tree.h"
#include "datasets/images/image_names.h"
#include "datasets/packed/class_list.h"

namespace mtrun::datasets {
namespace {

constexpr size_t kMaxJsonBytes = 1 << 20;

SamplePart PartOfField(absl::string_view field) {
  const size_t dot = field.rfind('.');
  const absl::string_view extension = dot == absl::string_view::npos ? field : field.substr(dot + 1);
  if (IsImageExtension({extension.data(), extension.size()})) return SamplePart::kImage;
  if (absl::EqualsIgnoreCase(extension, "cls")) return SamplePart::kClass;
  return absl::EqualsIgnoreCase(extension, "json") ? SamplePart::kJson : SamplePart::kOther;
}

std::string AsText(absl::string_view name) { return AsPlainText({name.data(), name.size()}); }

/// Returns a number without leading zeros, or a name.
absl::StatusOr<std::string> CheckLabel(absl::string_view label) {
  const bool digits = !label.empty() && label.find_first_not_of("0123456789") == absl::string_view::npos;
  const int64_t number = SmallNumber({label.data(), label.size()});
  if (digits && (number < 0 || number >= kMaxClasses))
    return absl::InvalidArgumentError(
        absl::StrCat("class ", label.substr(0, 30), " exceeds the limit of ", kMaxClasses, " classes"));
  if (digits) return absl::StrCat(number);
  MT_RETURN_IF_ERROR(CheckClassName({label.data(), label.size()}));
  return std::string(label);
}

}  // namespace

SampleName ParseSampleName(absl::string_view path) {
  const size_t slash = path.rfind('/');
  const size_t name = slash == absl::string_view::npos ? 0 : slash + 1;
  const size_t dot = std::min(path.find('.', name), path.size());
  const absl::string_view field = path.substr(std::min(dot + 1, path.size()));
  return {.key = path.substr(0, dot), .file = path.substr(name), .field = field, .part = PartOfField(field)};
}

absl::StatusOr<std::optional<size_t>> ChooseField(const std::vector<absl::string_view>& fields,
                                                  SamplePart part, const std::vector<std::string>& wanted) {
  std::optional<size_t> chosen;
  for (const std::string& name : wanted) {
    for (size_t i = 0; i < fields.size(); ++i) {
      if (absl::EqualsIgnoreCase(fields[i], name)) chosen = i;
    }
    if (chosen) return chosen;
  }
  if (!wanted.empty()) return std::nullopt;
  const auto is_plain = [](absl::string_view field) { return !absl::StrContains(field, '.'); };
  const auto is_part = [&](absl::string_view field) { return PartOfField(field) == part; };
  const bool only_plain = std::any_of(fields.begin(), fields.end(),
                                      [&](absl::string_view f) { return is_part(f) && is_plain(f); });
  for (size_t i = 0; i < fields.size(); ++i) {
    if (!is_part(fields[i]) || (only_plain && !is_plain(fields[i]))) continue;
    if (chosen && fields[*chosen] != fields[i])
      return absl::InvalidArgumentError(absl::StrCat(
          "has both .", AsText(fields[*chosen]), " and .", AsText(fields[i]), ": choose with --",
          part == SamplePart::kImage ? "image_field " : "class_field ", AsText(fields[*chosen])));
    chosen = i;
  }
  return chosen;
}

absl::StatusOr<std::string> ParseClassFile(std::string_view bytes) {
  return CheckLabel(absl::StripAsciiWhitespace({bytes.data(), bytes.size()}));
}

absl::StatusOr<std::string> ParseJsonFile(std::string_view bytes) {
  MT_ASSIGN_OR_RETURN(const nlohmann::json object, ParseJsonObject(bytes, kMaxJsonBytes));
  for (const char* name : {"cls", "label", "class", "class_id", "class_name"}) {
    const auto found = object.find(name);
    if (found == object.end()) continue;
    if (found->is_number_unsigned()) return CheckLabel(absl::StrCat(found->get<uint64_t>()));
    if (found->is_string()) return CheckLabel(found->get<std::string>());
    return absl::InvalidArgumentError(absl::StrCat("\"", name, "\" is neither a whole number nor a string"));
  }
  return absl::InvalidArgumentError(
      "it has none of \"cls\", \"label\", \"class\", \"class_id\", \"class_name\"");
}

absl::string_view SplitInName(absl::string_view name) {
  absl::string_view split;
  for (const absl::string_view word : absl::StrSplit(name, absl::ByAnyChar("-_."))) {
    if (!IsSplitFolder(word)) continue;
    if (!split.empty() && split != word) return "";
    split = word;
  }
  return split;
}

}  // namespace mtrun::datasets
