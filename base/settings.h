// Settings of a program: one table of specs; values from flags, environment and a YAML section, in that order
// of rank, each remembering where it came from. Dashes and underscores are alike, unambiguous prefixes of a
// name are accepted, `--a=b` and `--a b` both work. Used by every program, so that a wrong flag reads the
// same everywhere. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/nearest_name.h"  // IWYU pragma: export
#include "base/setting_spec.h"  // IWYU pragma: export
#include "base/worker_env.h"

namespace mtrun {

/// What a settings file without the section that is looked for means.
enum class MissingSection { kWarn, kFineUnlessMisspelt, kFine };

enum class SettingSource { kDefault, kFile, kEnvironment, kFlag };

class Settings {
 public:
  Settings(std::string program, std::vector<SettingSpec> specs);

  /// Takes flags from `args` up to the first positional argument (or "--"); returns the rest, positional
  /// first. With `positionals_allowed` false a positional is an error. kInvalidArgument names flag, value,
  /// what is allowed and, for an unknown flag, what may have been meant. A flag given twice: the last one
  /// counts.
  absl::StatusOr<std::vector<std::string>> ParseFlags(const std::vector<std::string>& args,
                                                      bool positionals_allowed);
  /// What is wrong with `rest`, which ParseFlags left where no positional is allowed: a value that the flag
  /// before it does not take, or no flag at all.
  absl::Status NotAFlag(const std::vector<std::string>& rest) const;
  /// Reads `<prefix><NAME>` for every spec: ApplyEnvironment(env, "PET_") reads PET_NNODES. Set but empty
  /// counts as not set.
  absl::Status ApplyEnvironment(const EnvironmentMap& environment, std::string_view prefix);
  /// Reads one section of a file (settings_file.h). An unknown key is an error with its line and the nearest
  /// valid name; a file without the section is warned of.
  absl::Status ApplyYaml(const std::string& path, std::string_view section,
                         MissingSection missing = MissingSection::kWarn);

  bool IsSet(std::string_view name) const;  // given anywhere, or with a default
  SettingSource SourceOf(std::string_view name) const;
  bool IsDerived(std::string_view name) const;  // by Derive
  std::string Text(std::string_view name) const;
  int64_t Int(std::string_view name) const;
  double Double(std::string_view name) const;
  bool Bool(std::string_view name) const;
  /// For values that a program derives; shown with the reason as source: Set("global_batch", "64",
  /// "batch_size x workers").
  void Derive(std::string_view name, std::string_view text, std::string_view reason);

  /// Aligned columns name, value, where the value came from, of what differs from the default (or of `all`).
  /// `columns` > 0: long values lose their middle, and reasons their end, so that no line is longer.
  std::string Table(bool all = true, size_t columns = 0) const;
  /// `section:\n  name: value` lines that ApplyYaml reads back.
  std::string Yaml(std::string_view section) const;
  /// Grouped --help text of all settings (no usage line).
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
  /// Whether other programs call another setting so.
  bool MeansAnother(const std::string& name, const Entry& than) const;
  std::string Hint(const std::string& name) const;
  const Entry& Get(std::string_view name) const;
  absl::Status Assign(Entry& entry, std::string_view text, SettingSource source, std::string where);
  absl::StatusOr<size_t> ParseOne(const std::vector<std::string>& args, size_t i);

  std::string program_;
  std::vector<Entry> entries_;
  std::string open_;  // the last flag of all, where it has choices and was given none; by name
};

}  // namespace mtrun
