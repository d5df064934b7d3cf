#include "base/settings.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/help_page.h"
#include "base/log.h"
#include "base/settings_file.h"
#include "base/status_macros.h"
#include "base/strange_flag.h"
#include "base/string_view.h"
#include "yaml-cpp/yaml.h"

namespace mtrun {
namespace {

std::string Canonical(std::string_view flag) { return absl::StrReplaceAll(View(flag), {{"-", "_"}}); }

std::string Suggestion(std::string_view name, const std::vector<std::string>& candidates,
                       std::string_view before) {
  const std::string nearest = NearestName(name, candidates);
  return nearest.empty() ? "" : absl::StrCat("; did you mean ", View(before), nearest, "?");
}

/// `hint`: "; did you mean ...?", or "".
absl::Status WithHint(const absl::Status& strange, const std::string& hint) {
  return hint.empty() ? strange : absl::InvalidArgumentError(absl::StrCat(strange.message(), hint));
}

constexpr size_t kHelpFlag = 26;  // columns of --help: the flag
constexpr size_t kHelpText = 50;  // columns of --help: its description

/// Returns the lines of --help about one setting, with its default in brackets at the end.
std::string HelpLines(const SettingSpec& spec) {
  const bool off = spec.kind == SettingSpec::Kind::kBool && spec.default_text == "false";
  const std::string otherwise = !spec.otherwise.empty() ? spec.otherwise : off ? "" : spec.default_text;
  const std::string flag = Spelling(spec);
  const std::string text =
      WrappedText(otherwise.empty() ? spec.help : absl::StrCat(spec.help, " [", otherwise, "]"), kHelpText,
                  kHelpFlag + 4);
  if (flag.size() <= kHelpFlag)
    return absl::StrFormat("  %-*s  %s\n", static_cast<int>(kHelpFlag), flag, text);
  return absl::StrCat("  ", flag, "\n", std::string(kHelpFlag + 4, ' '), text, "\n");
}

/// Shortens to at most `room` bytes by dropping the middle; the end of a path is its most telling part.
std::string WithoutMiddle(const std::string& text, size_t room) {
  constexpr size_t kBeginning = 8;
  if (text.size() <= room || room < 2 * kBeginning) return text;
  return absl::StrCat(text.substr(0, kBeginning), "...", text.substr(text.size() - (room - kBeginning - 3)));
}

absl::Status NotAllowed(const SettingSpec& spec, std::string_view where, std::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat(View(where), ": \"", View(text), "\" is not allowed; it takes ", Allowed(spec)));
}

/// Rejects a key that occurs twice in one section, because neither value can be trusted.
absl::Status SetTwice(const FileSetting& second, const FileSetting& first) {
  return absl::InvalidArgumentError(
      absl::StrCat(second.where, ": \"", second.key, "\" is set on line ", first.line, " too",
                   first.key == second.key ? "" : absl::StrCat(", as \"", first.key, "\"")));
}

std::string YamlQuoted(const std::string& text) {
  YAML::Emitter emitter;
  emitter << text;
  return emitter.c_str();
}

}  // namespace

Settings::Settings(std::string program, std::vector<SettingSpec> specs) : program_(std::move(program)) {
  for (SettingSpec& spec : specs) {
    Value value;
    value.text = spec.default_text;
    value.set = !spec.default_text.empty();
    value.where = "default";
    MT_CHECK(!value.set || Fits(spec, value.text)) << "default of " << spec.name;
    entries_.push_back({std::move(spec), std::move(value)});
  }
}

absl::StatusOr<Settings::Entry*> Settings::Find(std::string_view flag) {
  const std::string name = Canonical(flag);
  std::vector<Entry*> matches;
  for (Entry& entry : entries_) {
    std::vector<std::string> spellings = entry.spec.aliases;
    spellings.push_back(entry.spec.name);
    bool starts = false;
    for (const std::string& spelling : spellings) {
      if (spelling == name) return &entry;
      starts = starts || spelling.starts_with(name);
    }
    if (starts) matches.push_back(&entry);
  }
  if (matches.size() > 1) {
    std::vector<Entry*> firm;
    std::copy_if(matches.begin(), matches.end(), std::back_inserter(firm),
                 [](const Entry* entry) { return !entry->spec.yields; });
    if (firm.size() == 1) matches = firm;
  }
  if (matches.size() == 1 && matches.front()->spec.yields && MeansAnother(name, *matches.front()))
    matches.clear();
  if (matches.size() == 1) return matches.front();
  if (matches.empty()) return WithHint(StrangeFlag(absl::StrCat("unknown flag --", View(flag))), Hint(name));
  const auto flag_of = [](std::string* out, const Entry* entry) {
    absl::StrAppend(out, FlagOf(entry->spec));
  };
  return absl::InvalidArgumentError(
      absl::StrCat("--", View(flag), " is ambiguous: ", absl::StrJoin(matches, ", ", flag_of)));
}

bool Settings::MeansAnother(const std::string& name, const Entry& than) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return &entry != &than &&
           std::find(entry.spec.hints.begin(), entry.spec.hints.end(), name) != entry.spec.hints.end();
  });
}

std::string Settings::OtherName(const std::string& name) const {
  std::vector<std::string> meant;
  for (const Entry& entry : entries_) {
    const std::vector<std::string>& hints = entry.spec.hints;
    if (std::find(hints.begin(), hints.end(), name) != hints.end()) meant.push_back(FlagOf(entry.spec));
  }
  return meant.empty() ? "" : absl::StrCat("; did you mean ", absl::StrJoin(meant, " or "), "?");
}

std::string Settings::Hint(const std::string& name) const {
  if (std::string other = OtherName(name); !other.empty()) return other;
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.push_back(entry.spec.name);
  if (std::string near = Suggestion(name, names, "--"); !near.empty()) return near;
  const std::vector<std::string> related = RelatedNames(name, names);
  return related.empty() ? "" : absl::StrCat("; did you mean --", absl::StrJoin(related, " or --"), "?");
}

absl::Status Settings::Assign(Entry& entry, std::string_view text, SettingSource source, std::string where) {
  for (const auto& [other, choice] : entry.spec.same)
    if (text == other) text = choice;
  if (!Fits(entry.spec, text)) {
    // A flag's name identifies the setting; a line of a file does not.
    const bool flag = source == SettingSource::kFlag;
    return NotAllowed(entry.spec, flag ? FlagOf(entry.spec) : absl::StrCat(where, " (", entry.spec.name, ")"),
                      text);
  }
  // A source of lower rank never overrides one of higher rank, whatever the order in which they are applied.
  if (entry.value.set && source < entry.value.source) return absl::OkStatus();
  bool truth = false;
  if (entry.spec.kind == SettingSpec::Kind::kBool && ParseBool(text, &truth)) text = truth ? "true" : "false";
  entry.value = {std::string(text), source, std::move(where), true};
  return absl::OkStatus();
}

absl::StatusOr<size_t> Settings::ParseOne(const std::vector<std::string>& args, size_t i) {
  const std::string& arg = args[i];
  const bool is_long = arg.starts_with("--");
  Entry* entry = nullptr;
  std::optional<std::string> value;
  bool negated = false;
  if (is_long) {
    const size_t equals = arg.find('=');
    const std::string flag = arg.substr(2, equals == std::string::npos ? equals : equals - 2);
    if (equals != std::string::npos) value = arg.substr(equals + 1);
    absl::StatusOr<Entry*> found = Find(flag);
    const std::string canonical = Canonical(flag);
    if (!found.ok() && canonical.starts_with("no_") && !value) {
      absl::StatusOr<Entry*> positive = Find(canonical.substr(3));
      negated = positive.ok() && (*positive)->spec.kind == SettingSpec::Kind::kBool;
      if (negated) found = positive;
    }
    MT_RETURN_IF_ERROR(found.status());
    entry = *found;
  } else {
    for (Entry& candidate : entries_) {
      if (candidate.spec.letter == arg[1]) entry = &candidate;
    }
    if (entry == nullptr)
      return WithHint(StrangeFlag(absl::StrCat("unknown flag ", arg)), OtherName(arg.substr(1)));
    if (arg.size() > 2) value = arg.substr(arg[2] == '=' ? 3 : 2);
  }
  size_t used = 1;
  if (!value && entry->spec.kind == SettingSpec::Kind::kBool) {
    // A boolean with choices takes the next argument if it is a valid value; other booleans never do.
    const bool follows =
        !negated && !entry->spec.choices.empty() && i + 1 < args.size() && Fits(entry->spec, args[i + 1]);
    used = follows ? 2 : 1;
    if (!follows && !negated && !entry->spec.choices.empty()) open_ = entry->spec.name;
    value = follows ? args[i + 1] : negated ? "false" : "true";
  }
  if (!value) {
    if (i + 1 >= args.size() || (args[i + 1].size() > 2 && args[i + 1].starts_with("--"))) {
      return absl::InvalidArgumentError(absl::StrCat(
          arg, " needs a value: ", entry->spec.value.empty() ? Allowed(entry->spec) : entry->spec.value));
    }
    value = args[i + 1];
    used = 2;
  }
  MT_RETURN_IF_ERROR(Assign(*entry, *value, SettingSource::kFlag, "flag"));
  return used;
}

absl::StatusOr<std::vector<std::string>> Settings::ParseFlags(const std::vector<std::string>& args,
                                                              bool positionals_allowed) {
  size_t i = 0;
  open_.clear();
  while (i < args.size()) {
    const std::string& arg = args[i];
    if (arg == "--") {
      open_.clear();
      ++i;
      break;
    }
    if (arg.size() < 2 || arg[0] != '-') break;
    open_.clear();
    MT_ASSIGN_OR_RETURN(const size_t used, ParseOne(args, i));
    i += used;
  }
  std::vector<std::string> rest(args.begin() + static_cast<std::ptrdiff_t>(i), args.end());
  if (!rest.empty() && !positionals_allowed) return NotAFlag(rest);
  return rest;
}

absl::StatusOr<std::vector<std::string>> Settings::ParseWords(std::vector<std::string> args) {
  std::vector<std::string> words;
  while (true) {
    MT_ASSIGN_OR_RETURN(args, ParseFlags(args, /*positionals_allowed=*/true));
    if (args.empty()) return words;
    words.push_back(args.front());
    args.erase(args.begin());
  }
}

absl::Status Settings::NotAFlag(const std::vector<std::string>& rest) const {
  if (!open_.empty()) return NotAllowed(Get(open_).spec, FlagOf(Get(open_).spec), rest.front());
  return absl::InvalidArgumentError(
      absl::StrCat("\"", rest.front(), "\" is not a flag; ", program_, " takes flags only (see --help)"));
}

absl::Status Settings::ApplyEnvironment(const EnvironmentMap& environment, std::string_view prefix) {
  for (Entry& entry : entries_) {
    std::vector<std::string> names = entry.spec.aliases;
    names.insert(names.begin(), entry.spec.name);
    for (const std::string& spelling : names) {
      const std::string name = absl::StrCat(View(prefix), absl::AsciiStrToUpper(spelling));
      const auto found = environment.find(name);
      if (found == environment.end() || found->second.empty()) continue;
      MT_RETURN_IF_ERROR(Assign(entry, found->second, SettingSource::kEnvironment, name));
      break;
    }
  }
  return absl::OkStatus();
}

/// Finds a setting by its name or an alias; null if there is none.
Settings::Entry* Settings::Named(const std::string& name) {
  for (Entry& entry : entries_) {
    const std::vector<std::string>& aliases = entry.spec.aliases;
    if (entry.spec.name == name || std::find(aliases.begin(), aliases.end(), name) != aliases.end())
      return &entry;
  }
  return nullptr;
}

absl::Status Settings::ApplyYaml(const std::string& path, std::string_view section, MissingSection missing) {
  MissingSectionNote note;
  MT_ASSIGN_OR_RETURN(const std::vector<FileSetting> found, ReadSettingsFile(path, section, note));
  const bool matters =
      missing == MissingSection::kWarn || (missing == MissingSection::kFineUnlessMisspelt && note.misspelt);
  if (!note.text.empty() && matters) log::Warning(note.text);
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.push_back(entry.spec.name);
  std::map<const Entry*, const FileSetting*> seen;
  for (const FileSetting& setting : found) {
    const std::string name = Canonical(setting.key);
    Entry* const entry = Named(name);
    if (entry == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(setting.where, ": unknown key \"", name, "\"", Suggestion(name, names, "")));
    }
    if (const auto [first, is_new] = seen.emplace(entry, &setting); !is_new)
      return SetTwice(setting, *first->second);
    if (!setting.text.empty())
      MT_RETURN_IF_ERROR(Assign(*entry, setting.text, SettingSource::kFile, setting.where));
  }
  return absl::OkStatus();
}

const Settings::Entry& Settings::Get(std::string_view name) const {
  const auto entry =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.spec.name == name; });
  MT_CHECK(entry != entries_.end()) << "no setting is named " << name;
  return *entry;
}

bool Settings::Has(std::string_view name) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const Entry& entry) { return entry.spec.name == name; });
}
bool Settings::IsSet(std::string_view name) const { return Get(name).value.set; }
SettingSource Settings::SourceOf(std::string_view name) const { return Get(name).value.source; }
bool Settings::IsDerived(std::string_view name) const { return Get(name).value.derived; }
std::string Settings::Text(std::string_view name) const { return Get(name).value.text; }

int64_t Settings::Int(std::string_view name) const {
  int64_t value = 0;
  MT_CHECK(absl::SimpleAtoi(Get(name).value.text, &value)) << name << " has no number";
  return value;
}

double Settings::Double(std::string_view name) const {
  double value = 0;
  MT_CHECK(absl::SimpleAtod(Get(name).value.text, &value)) << name << " has no number";
  return value;
}

bool Settings::Bool(std::string_view name) const {
  bool value = false;
  MT_CHECK(ParseBool(Get(name).value.text, &value)) << name << " is neither true nor false";
  return value;
}

absl::Status Settings::Replace(std::string_view name, std::string_view text) {
  Entry* const entry = Named(std::string(name));
  MT_CHECK(entry != nullptr) << "no setting is named " << name;
  if (!Fits(entry->spec, text)) return NotAllowed(entry->spec, FlagOf(entry->spec), text);
  entry->value.text = text;
  return absl::OkStatus();
}

void Settings::Derive(std::string_view name, std::string_view text, std::string_view reason) {
  Value& value = entries_[static_cast<size_t>(&Get(name) - entries_.data())].value;
  value.text = text;
  value.where = reason;
  value.set = value.derived = true;
}

std::string Settings::Table(bool all, size_t columns) const {
  constexpr size_t kValue = 40;  // a longer value replaces its reason
  std::vector<const Entry*> rows;
  size_t name_width = 0, value_width = 0;
  for (const Entry& entry : entries_) {
    const bool usual = entry.value.text == entry.spec.default_text && !entry.value.derived;
    if (!entry.value.set || (!all && usual)) continue;
    rows.push_back(&entry);
    name_width = std::max(name_width, entry.spec.name.size());
    value_width = std::max(value_width, std::min(entry.value.text.size(), kValue));
  }
  std::string table;
  for (const Entry* entry : rows) {
    const std::string start = absl::StrFormat("  %-*s  ", static_cast<int>(name_width), entry->spec.name);
    const size_t room = columns > start.size() ? columns - start.size() : 0;
    const std::string value = columns > 0 ? WithoutMiddle(entry->value.text, room) : entry->value.text;
    std::string line =
        absl::StrFormat("%s%-*s  %s", start, static_cast<int>(value_width), value, entry->value.where);
    if (columns > 0 && line.size() > columns) line.resize(columns);
    absl::StrAppend(&table, line, "\n");
  }
  return table;
}

std::string Settings::Yaml(std::string_view section) const {
  std::string text = absl::StrCat(View(section), ":\n");
  for (const Entry& entry : entries_) {
    if (entry.value.set)
      absl::StrAppend(&text, "  ", entry.spec.name, ": ", YamlQuoted(entry.value.text), "\n");
  }
  return text;
}

std::string Settings::Help() const {
  constexpr char kCommon[] = "Most used";
  const auto group_of = [&](const Entry& entry) { return entry.spec.common ? kCommon : entry.spec.group; };
  std::vector<std::string> groups;
  const auto add = [&](const std::string& group) {
    if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
  };
  for (const Entry& entry : entries_) {
    if (entry.spec.common) add(kCommon);
  }
  for (const Entry& entry : entries_) add(group_of(entry));
  std::string help;
  for (const std::string& group : groups) {
    absl::StrAppend(&help, "\n", group, ":\n");
    for (const Entry& entry : entries_) {
      if (group_of(entry) == group) help += HelpLines(entry.spec);
    }
  }
  return help;
}

}  // namespace mtrun
