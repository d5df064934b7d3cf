// Settings of a program: one table of specs. Values come from flags, environment and a YAML section, in that
// order of precedence, and each remembers its source. Dashes and underscores are equivalent, unambiguous
// prefixes of a name are accepted, `--a=b` and `--a b` both work. Every program uses this, so that a wrong
// flag reads the same everywhere. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/nearest_name.h"  // IWYU pragma: export
#include "base/setting_spec.h"  // IWYU pragma: export
#include "base/worker_env.h"

namespace mtrun {

/// How to treat a settings file that lacks the requested section.
enum class MissingSection { kWarn, kFineUnlessMisspelt, kFine };

enum class SettingSource { kDefault, kFile, kEnvironment, kFlag };

class Settings {
 public:
  Settings(std::string program, std::vector<SettingSpec> specs);

  /// Takes flags from `args` up to the first positional argument (or "--") and returns the rest, positional
  /// first. If `positionals_allowed` is false, a positional is an error. If a flag is repeated, the last one
  /// counts. kInvalidArgument names flag, value, what is allowed and, for an unknown flag, a likely
  /// alternative.
  absl::StatusOr<std::vector<std::string>> ParseFlags(const std::vector<std::string>& args,
                                                      bool positionals_allowed);
  /// Takes flags before, between and after the words in `args`, and returns the words. Errors as ParseFlags.
  absl::StatusOr<std::vector<std::string>> ParseWords(std::vector<std::string> args);

  /// Returns the error for `rest`, which ParseFlags left although no positional is allowed: either the
  /// preceding flag does not take this value, or it is not a flag at all.
  absl::Status NotAFlag(const std::vector<std::string>& rest) const;
  /// Reads `<prefix><NAME>` for every spec: ApplyEnvironment(env, "PET_") reads PET_NNODES. An empty variable
  /// counts as not set.
  absl::Status ApplyEnvironment(const EnvironmentMap& environment, std::string_view prefix);
  /// Reads one section of a file (settings_file.h). An unknown key is an error with its line and the nearest
  /// valid name. Warns if the file lacks the section.
  absl::Status ApplyYaml(const std::string& path, std::string_view section,
                         MissingSection missing = MissingSection::kWarn);

  bool Has(std::string_view name) const;    // is a setting
  bool IsSet(std::string_view name) const;  // given in any source, or has a default
  SettingSource SourceOf(std::string_view name) const;
  bool IsDerived(std::string_view name) const;  // by Derive
  std::string Text(std::string_view name) const;
  int64_t Int(std::string_view name) const;
  double Double(std::string_view name) const;
  bool Bool(std::string_view name) const;
  /// Sets a value that the program derives; the reason is shown as its source: Derive("global_batch", "64",
  /// "batch_size x workers").
  void Derive(std::string_view name, std::string_view text, std::string_view reason);

  /// Changes a value; its source stays. Returns kInvalidArgument if the setting does not accept it.
  absl::Status Replace(std::string_view name, std::string_view text);

  /// Returns aligned columns name, value and source for all settings, or if `all` is false only for those that
  /// are derived or differ from their defaults. If `columns` > 0, long values lose their middle and reasons
  /// their end, so that each line fits.
  std::string Table(bool all = true, size_t columns = 0) const;
  /// Returns `section:\n  name: value` lines that ApplyYaml reads back.
  std::string Yaml(std::string_view section) const;
  /// Returns the grouped --help text of all settings (no usage line).
  std::string Help() const;

 private:
  struct Value {
    std::string text;
    SettingSource source = SettingSource::kDefault;
    std::string where;  // "flag", "PET_NNODES", "cnnA.yaml:7", or the reason of Derive
    bool set = false;
    bool derived = false;
  };
  struct Entry {
    SettingSpec spec;
    Value value;
  };

  absl::StatusOr<Entry*> Find(std::string_view flag);
  Entry* Named(const std::string& name);
  /// Returns whether other programs use this name for a setting other than `than`.
  bool MeansAnother(const std::string& name, const Entry& than) const;
  /// Returns "; did you mean --nproc_per_node?" if another program's name for a setting is `name`, "" if not.
  std::string OtherName(const std::string& name) const;
  std::string Hint(const std::string& name) const;
  const Entry& Get(std::string_view name) const;
  absl::Status Assign(Entry& entry, std::string_view text, SettingSource source, std::string where);
  absl::StatusOr<size_t> ParseOne(const std::vector<std::string>& args, size_t i);

  std::string program_;
  std::vector<Entry> entries_;
  std::string open_;  // name of the last flag, if it has choices and got no value
};

}  // namespace mtrun
