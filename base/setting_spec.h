// The specification of one setting: its name, its values, its help. Pure values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mtrun {

struct SettingSpec {
  enum class Kind { kString, kInt, kDouble, kBool };
  std::string name;               // with underscores: "batch_size"
  Kind kind = Kind::kString;      // kBool: `--shuffle`, `--shuffle=false`, `--no_shuffle`
  std::string default_text = "";  // "": not set
  std::string help = "";          // sentences for --help: "Seconds until SIGKILL."
  std::string group = "Flags";    // heading in --help
  std::string value = "";      // form of the value in --help: "HOST:PORT"; "": derived from kind and choices
  std::string otherwise = "";  // for --help: the value if it is not given; "": default_text
  bool common = false;         // needed on the first day: listed first in --help
  char letter = 0;             // short form, 0: none
  std::optional<double> min = {};  // numbers: inclusive bounds
  std::optional<double> max = {};
  std::vector<std::string> choices = {};  // strings: allowed values, empty: all; kBool: further values
  std::vector<std::pair<std::string, std::string>> same = {};  // other words for a choice: {"gpu", "cuda"}
  std::vector<std::string> aliases = {};                       // other accepted names
  std::vector<std::string> hints = {};  // names that other programs use for it: only for "did you mean"
  bool yields = false;  // never chosen for an abbreviation that fits another setting or its hints
};

/// Returns the spec of a text that --help shows as `value`.
SettingSpec TextSpec(std::string name, std::string value, std::string help);
/// Returns the spec of a setting that is "true" or "false".
SettingSpec SwitchSpec(std::string name, std::string default_text, std::string help);
/// Returns the spec of a whole number from `min` to `max`.
SettingSpec NumberSpec(std::string name, int64_t by_default, int64_t min, int64_t max, std::string help);
/// Puts specs under one heading of --help.
std::vector<SettingSpec> InGroup(const std::string& group, std::vector<SettingSpec> specs);

/// Returns "--batch_size".
std::string FlagOf(const SettingSpec& spec);
/// Describes the allowed values for people.
std::string Allowed(const SettingSpec& spec);
/// Returns "-r, --redirects STREAMS", as --help lists it.
std::string Spelling(const SettingSpec& spec);
/// Returns whether the setting accepts `text`.
bool Fits(const SettingSpec& spec, std::string_view text);
/// Parses "yes", "off" and the like. For other words returns false and leaves `value` unchanged.
bool ParseBool(std::string_view text, bool* value);

}  // namespace mtrun
