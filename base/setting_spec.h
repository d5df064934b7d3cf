// What one setting is: its name, what it takes, its help. Pure values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mtrun {

struct SettingSpec {
  enum class Kind { kString, kInt, kDouble, kBool };
  std::string name;                // with underscores: "batch_size"
  Kind kind = Kind::kString;       // kBool: `--shuffle`, `--shuffle=false`, `--no_shuffle`
  std::string default_text = "";   // "" = not set
  std::string help = "";           // one sentence for --help
  std::string group = "";          // heading in --help
  char letter = 0;                 // short form, 0 = none
  std::optional<double> min = {};  // numbers: inclusive bounds
  std::optional<double> max = {};
  std::vector<std::string> choices = {};  // strings: what is allowed, empty = all; kBool: further values
  std::vector<std::string> aliases = {};  // other names that are accepted
  std::vector<std::string> hints = {};    // what other programs call it: only for "did you mean"
  bool yields = false;  // an abbreviation that fits another setting, or its hints, does not mean this one
};

/// "--batch_size".
std::string FlagOf(const SettingSpec& spec);
/// What the setting takes, for people.
std::string Allowed(const SettingSpec& spec);
/// Whether it takes this.
bool Fits(const SettingSpec& spec, std::string_view text);
/// "yes", "off" and the like; false for other words, and `value` is as it was.
bool ParseBool(std::string_view text, bool* value);

}  // namespace mtrun
