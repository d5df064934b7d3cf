#include "base/setting_spec.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/string_view.h"

namespace mtrun {
namespace {

bool InBounds(const SettingSpec& spec, double value) {
  return std::isfinite(value) && (!spec.min || value >= *spec.min) && (!spec.max || value <= *spec.max);
}

bool IsChoice(const SettingSpec& spec, std::string_view text) {
  return std::find(spec.choices.begin(), spec.choices.end(), text) != spec.choices.end();
}

/// Prints 1000000000, not 1e+09.
std::string Bound(double bound) {
  constexpr double kMaxExact = 0x1p53;
  const bool whole = std::fabs(bound) <= kMaxExact && bound == std::floor(bound);
  return whole ? absl::StrCat(static_cast<int64_t>(bound)) : absl::StrCat(bound);
}

}  // namespace

SettingSpec TextSpec(std::string name, std::string value, std::string help) {
  return {.name = std::move(name), .help = std::move(help), .value = std::move(value)};
}

SettingSpec SwitchSpec(std::string name, std::string default_text, std::string help) {
  return {.name = std::move(name),
          .kind = SettingSpec::Kind::kBool,
          .default_text = std::move(default_text),
          .help = std::move(help)};
}

SettingSpec NumberSpec(std::string name, int64_t by_default, int64_t min, int64_t max, std::string help) {
  return {.name = std::move(name),
          .kind = SettingSpec::Kind::kInt,
          .default_text = absl::StrCat(by_default),
          .help = std::move(help),
          .min = min,
          .max = max};
}

std::vector<SettingSpec> InGroup(const std::string& group, std::vector<SettingSpec> specs) {
  for (SettingSpec& spec : specs) spec.group = group;
  return specs;
}

std::string FlagOf(const SettingSpec& spec) { return absl::StrCat("--", spec.name); }

std::string Spelling(const SettingSpec& spec) {
  using Kind = SettingSpec::Kind;
  const std::string choices = absl::StrJoin(spec.choices, "|");
  const std::string letter = spec.letter == 0 ? "" : absl::StrCat("-", std::string(1, spec.letter), ", ");
  const std::string flag = absl::StrCat(letter, FlagOf(spec));
  if (!spec.value.empty()) return absl::StrCat(flag, " ", spec.value);
  switch (spec.kind) {
    case Kind::kBool:
      return choices.empty() ? flag : absl::StrCat(flag, "[=true|false|", choices, "]");
    case Kind::kInt:
      return flag + " N";
    case Kind::kDouble:
      return flag + " X";
    case Kind::kString:
      return absl::StrCat(flag, " ", choices.empty() ? "TEXT" : choices);
  }
  return flag;
}

std::string Allowed(const SettingSpec& spec) {
  using Kind = SettingSpec::Kind;
  if (spec.kind == Kind::kBool) {
    std::vector<std::string> values = {"true", "false"};
    values.insert(values.end(), spec.choices.begin(), spec.choices.end());
    const std::string last = values.back();
    values.pop_back();
    return absl::StrCat(absl::StrJoin(values, ", "), " or ", last);
  }
  if (!spec.choices.empty()) return absl::StrCat("one of ", absl::StrJoin(spec.choices, ", "));
  if (spec.kind == Kind::kString) return "text";
  std::string text = spec.kind == Kind::kInt ? "a whole number" : "a number";
  if (spec.min && spec.max) return absl::StrCat(text, " from ", Bound(*spec.min), " to ", Bound(*spec.max));
  if (spec.min) return absl::StrCat(text, ", ", Bound(*spec.min), " or more");
  if (spec.max) return absl::StrCat(text, ", at most ", Bound(*spec.max));
  return text;
}

bool ParseBool(std::string_view text, bool* value) {
  const std::string lower = absl::AsciiStrToLower(View(text));
  for (const char* yes : {"1", "true", "yes", "on"}) {
    if (lower == yes) return *value = true, true;
  }
  for (const char* no : {"0", "false", "no", "off"}) {
    if (lower == no) return *value = false, true;
  }
  return false;
}

bool Fits(const SettingSpec& spec, std::string_view text) {
  switch (spec.kind) {
    case SettingSpec::Kind::kBool: {
      bool value = false;
      return ParseBool(text, &value) || IsChoice(spec, text);
    }
    case SettingSpec::Kind::kInt: {
      int64_t value = 0;
      return absl::SimpleAtoi(View(text), &value) && InBounds(spec, static_cast<double>(value));
    }
    case SettingSpec::Kind::kDouble: {
      double value = 0;
      return absl::SimpleAtod(View(text), &value) && InBounds(spec, value);
    }
    case SettingSpec::Kind::kString:
      return spec.choices.empty() || IsChoice(spec, text);
  }
  return false;
}

}  // namespace mtrun
